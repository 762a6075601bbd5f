// Command work is all that runs in the pods of the end-to-end tests: the pause container, which waits until it is
// told to end, and work that takes a while, may need a moment more when it is told to end, and says what it saw.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	takes := flag.Duration("takes", 0, "end after this time; 0 waits for a signal")
	lingers := flag.Duration("lingers", 0, "how long it goes on after a signal, as work that is being saved does")
	flag.Parse()

	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	var done <-chan time.Time
	if *takes > 0 {
		done = time.After(*takes)
	}
	select {
	case <-done:
		say(fmt.Sprintf("finished with GPUs %q", os.Getenv("NVIDIA_VISIBLE_DEVICES")))
	case number := <-told:
		time.Sleep(*lingers)
		say(fmt.Sprintf("ended in order after signal %d", number))
	}
}

// say leaves the text where the kubelet takes a container's last words from.
func say(text string) {
	fmt.Println(text)
	_ = os.WriteFile("/dev/termination-log", []byte(text), 0o644)
}
