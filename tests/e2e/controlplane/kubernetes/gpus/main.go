// Command gpus is a device plugin with GPUs that do not exist: it registers with the kubelet as NVIDIA's does, and
// lists its devices only after a while, as one does whose driver is still starting.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const endpoint = "e2e-gpus.sock"

type plugin struct {
	v1beta1.UnimplementedDevicePluginServer
	count int
	from  time.Time
}

func (p plugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

func (p plugin) ListAndWatch(_ *v1beta1.Empty, out grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	if err := out.Send(&v1beta1.ListAndWatchResponse{}); err != nil {
		return err
	}
	select {
	case <-time.After(time.Until(p.from)):
	case <-out.Context().Done():
		return nil
	}
	var devices []*v1beta1.Device
	for number := range p.count {
		devices = append(devices, &v1beta1.Device{ID: fmt.Sprintf("GPU-%d", number), Health: v1beta1.Healthy})
	}
	if err := out.Send(&v1beta1.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-out.Context().Done()
	return nil
}

func (p plugin) Allocate(_ context.Context, asked *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	answer := &v1beta1.AllocateResponse{}
	for _, container := range asked.ContainerRequests {
		given := map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")}
		answer.ContainerResponses = append(answer.ContainerResponses, &v1beta1.ContainerAllocateResponse{Envs: given})
	}
	return answer, nil
}

func main() {
	folder := flag.String("folder", v1beta1.DevicePluginPath, "the kubelet's folder of sockets")
	resource := flag.String("resource", "nvidia.com/gpu", "the resource that the devices are counted as")
	count := flag.Int("count", 1, "how many devices there are")
	delay := flag.Duration("delay", 0, "how long after the start they appear")
	flag.Parse()

	own := filepath.Join(*folder, endpoint)
	_ = os.Remove(own)
	socket, err := net.Listen("unix", own)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	v1beta1.RegisterDevicePluginServer(server, plugin{count: *count, from: time.Now().Add(*delay)})
	go func() { log.Fatal(server.Serve(socket)) }()
	if err := register(filepath.Join(*folder, "kubelet.sock"), *resource); err != nil {
		log.Fatal(err)
	}
	log.Printf("registered; %d × %s in %s", *count, *resource, *delay)
	select {}
}

func register(kubelet, resource string) error {
	link, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer link.Close()
	within, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = v1beta1.NewRegistrationClient(link).Register(within, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: endpoint, ResourceName: resource, Options: &v1beta1.DevicePluginOptions{},
	}, grpc.WaitForReady(true))
	return err
}
