"""DaemonSets, Jobs, replicas, budgets, and what is collected."""

from __future__ import annotations

from typing import Any

from .town import NODES, PODS, Town, condition, pod

JOBS = "/apis/batch/v1/namespaces/default/jobs"
SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def job(name: str, **spec: Any) -> Any:
    inner = pod("x", command=["sleep", "10"])["spec"] | {"restartPolicy": "Never"}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": inner}, **spec}}


def daemon_set(**spec: Any) -> Any:
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"] | spec}
    return {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def pods_of(town: Town, namespace: str = "default") -> list[Any]:
    return town.get(f"/api/v1/namespaces/{namespace}/pods")["items"]


def evict(town: Town, name: str) -> Any:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    return town.ask("POST", f"{PODS}/{name}/eviction", body)


def test_a_daemon_pod_runs_on_every_node_that_matches(town: Town) -> None:
    town.add_node("a", labels={"gpu": "yes"})
    town.add_node("b")
    town.add_node("c", labels={"gpu": "yes"}, taints=[{"key": "x", "effect": "NoSchedule"}])
    town.add_node("d", labels={"gpu": "yes"}, unschedulable=True)
    town.post(SETS, daemon_set(nodeSelector={"gpu": "yes"}))
    town.run(5)
    assert {each["spec"]["nodeName"] for each in pods_of(town, "kube-system")} == {"a", "d"}
    (first, _) = pods_of(town, "kube-system")
    terms = first["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchFields"][0]["key"] == "metadata.name"
    assert first["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"
    status = town.get(f"{SETS}/d")["status"]
    assert (status["desiredNumberScheduled"], status["numberReady"]) == (2, 2)


def test_daemon_pods_follow_nodes_and_stay_through_a_drain(town: Town) -> None:
    town.post(SETS, daemon_set())
    town.run(1)
    assert pods_of(town, "kube-system") == []
    town.add_node("n")
    town.run(5)
    town.patch(f"{NODES}/n", {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})
    town.run(5)
    assert len(pods_of(town, "kube-system")) == 1
    town.ask(
        "DELETE",
        f"{PODS.replace('default', 'kube-system')}/{pods_of(town, 'kube-system')[0]['metadata']['name']}",
    )
    town.run(5)
    assert pods_of(town, "kube-system") == []


def test_a_job_makes_its_pods_and_completes(town: Town) -> None:
    town.add_node("n")
    town.post(JOBS, job("j", parallelism=2, completions=3))
    town.run(2.5)
    made = pods_of(town)
    assert len(made) == 2
    assert made[0]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
    assert made[0]["metadata"]["ownerReferences"][0]["controller"] is True
    assert town.get(f"{JOBS}/j")["status"]["active"] == 2
    town.run(60)
    done = town.get(f"{JOBS}/j")
    assert done["status"]["succeeded"] == 3
    assert condition(done, "Complete")["status"] == "True"
    assert len(pods_of(town)) == 3


def test_a_finished_pod_counts_for_its_job_even_when_it_is_deleted(town: Town) -> None:
    town.add_node("n")
    town.post(JOBS, job("j", parallelism=1, completions=2))
    town.run(13)
    (done,) = [each for each in pods_of(town) if each["status"]["phase"] == "Succeeded"]
    town.ask("DELETE", f"{PODS}/{done['metadata']['name']}")
    town.run(30)
    assert condition(town.get(f"{JOBS}/j"), "Complete")["status"] == "True"
    assert len(pods_of(town)) == 1


def test_a_job_whose_pods_are_still_being_created_can_be_seen(town: Town) -> None:
    town.settings(job_batch=2, job_batch_delay=3)
    town.post(JOBS, job("j", parallelism=5, completions=5))
    town.run(1)
    assert len(pods_of(town)) == 2
    town.run(3)
    assert len(pods_of(town)) == 4
    town.run(3)
    assert len(pods_of(town)) == 5


def test_an_indexed_job_numbers_its_pods(town: Town) -> None:
    town.post(JOBS, job("j", parallelism=3, completions=3, completionMode="Indexed"))
    town.run(1)
    label = "batch.kubernetes.io/job-completion-index"
    assert sorted(each["metadata"]["labels"][label] for each in pods_of(town)) == ["0", "1", "2"]


def test_a_job_gives_up_after_its_backoff_limit(town: Town) -> None:
    town.add_node("n")
    body = job("j", backoffLimit=1)
    body["spec"]["template"]["metadata"] = {"annotations": {"gpu-autoscaler-sandbox/fail": "true"}}
    town.post(JOBS, body)
    town.run(100)
    assert condition(town.get(f"{JOBS}/j"), "Failed")["reason"] == "BackoffLimitExceeded"
    assert len(pods_of(town)) == 2


def test_a_suspended_job_makes_no_pods_until_it_is_resumed(town: Town) -> None:
    town.post(JOBS, job("j", suspend=True))
    town.run(1)
    assert pods_of(town) == []
    town.patch(f"{JOBS}/j", {"spec": {"suspend": False}})
    town.run(1)
    assert len(pods_of(town)) == 1


def test_deleting_a_job_orphans_its_pods_unless_the_client_says_otherwise(town: Town) -> None:
    for name in ("said", "kept", "silent"):
        town.post(JOBS, job(name))
    town.run(1)
    town.ask("DELETE", f"{JOBS}/said", {"propagationPolicy": "Background"})
    town.ask("DELETE", f"{JOBS}/kept", {"propagationPolicy": "Orphan"})
    warned = town.ask("DELETE", f"{JOBS}/silent")
    assert "child pods are preserved by default when jobs are deleted" in warned.headers["Warning"]
    assert warned.json()["metadata"]["finalizers"] == ["orphan"]
    town.run(5)
    left = pods_of(town)
    assert {each["metadata"]["labels"]["job-name"] for each in left} == {"kept", "silent"}
    assert all("ownerReferences" not in each["metadata"] for each in left)
    assert town.get(JOBS)["items"] == []


def test_a_deployment_keeps_its_replicas_and_replaces_them_with_a_new_template(town: Town) -> None:
    town.add_node("n")
    path = "/apis/apps/v1/namespaces/default/deployments"
    body = daemon_set() | {"metadata": {"name": "web"}}
    body["spec"]["replicas"] = 2
    town.post(path, body)
    town.run(5)
    assert town.get(f"{path}/web")["status"]["readyReplicas"] == 2
    town.ask("DELETE", f"{PODS}/{pods_of(town)[0]['metadata']['name']}")
    town.run(5)
    assert len(pods_of(town)) == 2
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "busybox:2"
    town.patch(f"{path}/web", {"spec": body["spec"]})
    town.run(10)
    assert {each["spec"]["containers"][0]["image"] for each in pods_of(town)} == {"busybox:2"}
    town.ask("DELETE", f"{path}/web")
    town.run(5)
    assert pods_of(town) == []


def budget(**spec: Any) -> Any:
    return {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec}}


def three(town: Town) -> None:
    town.add_node("n")
    for name in "pqr":
        town.add_pod(name, labels={"app": "x"})
    town.run(5)


def test_an_eviction_within_the_budget_deletes_and_one_beyond_it_is_429(town: Town) -> None:
    three(town)
    town.post(BUDGETS, budget(minAvailable=2))
    town.run()
    assert town.get(f"{BUDGETS}/b")["status"]["disruptionsAllowed"] == 1
    assert evict(town, "p").status == 201
    answer = evict(town, "q")
    status = answer.json()
    assert (answer.status, status["reason"]) == (429, "TooManyRequests")
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert status["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 2 healthy pods and has 2 currently",
        }
    ]
    town.run(5)
    assert condition(town.pod("q"), "DisruptionTarget") == {}
    assert {each["metadata"]["name"] for each in pods_of(town)} == {"q", "r"}


def test_budgets_take_percentages_and_maxima_of_what_controllers_want(town: Town) -> None:
    town.add_node("n")
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("p")["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    town.post("/apis/apps/v1/namespaces/default/replicasets", {"metadata": {"name": "r"}, "spec": spec})
    town.run(5)
    for spec, allowed in (
        ({"minAvailable": "50%"}, 1),
        ({"maxUnavailable": 2}, 2),
        ({"maxUnavailable": "34%"}, 2),
        ({"maxUnavailable": 0}, 0),
        ({"minAvailable": 0}, 3),
    ):
        town.post(BUDGETS, budget(**spec))
        town.run()
        assert town.get(f"{BUDGETS}/b")["status"]["disruptionsAllowed"] == allowed, spec
        town.ask("DELETE", f"{BUDGETS}/b")


def test_a_share_of_pods_without_a_controller_is_none(town: Town) -> None:
    three(town)
    town.post(BUDGETS, budget(maxUnavailable=1))
    town.run()
    status = town.get(f"{BUDGETS}/b")["status"]
    assert (status["expectedPods"], status["disruptionsAllowed"]) == (0, 0)
    causes = evict(town, "p").json()["details"]["causes"]
    assert causes[0]["message"] == "The disruption budget b does not allow evicting pods currently"


def test_a_pending_pod_is_evicted_whatever_the_budget(town: Town) -> None:
    town.add_pod("p", labels={"app": "x"})
    town.post(BUDGETS, budget(maxUnavailable=0))
    town.run()
    assert evict(town, "p").status == 201
    town.refused("GET", f"{PODS}/p")


def test_two_budgets_for_one_pod_are_an_error(town: Town) -> None:
    three(town)
    town.post(BUDGETS, budget(minAvailable=0))
    town.post(BUDGETS, budget(minAvailable=0) | {"metadata": {"name": "c"}})
    town.run()
    answer = evict(town, "p")
    assert answer.status == 500
    assert "more than one PodDisruptionBudget" in answer.json()["message"]


def test_every_cluster_has_its_namespaces_with_an_account_and_a_ca(town: Town) -> None:
    names = [each["metadata"]["name"] for each in town.get("/api/v1/namespaces")["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert len(town.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]) == 36
    assert town.get("/api/v1/namespaces/kube-system/serviceaccounts/default")
    ca = town.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt")["data"]["ca.crt"]
    assert ca.startswith("-----BEGIN CERTIFICATE-----\n")
