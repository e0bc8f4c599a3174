"""Questions about a queue, answered from what AWS Batch says and from what we wrote down ourselves.

Pure: everything is asked through `fairshare.submit.ports.JobBackend` and `fairshare.provision.ports.Provisioner`, time
is an argument, and answers are data that `fairshare.cli` renders.

- `jobs`: which jobs there are, in the order in which they will start
- `shares`: what each share is due and what it holds; `quota_shares`: what each owns, borrows and has idle
- `queues`: the capacity and the weights of a queue, ours or not
- `lint`: traps in the policies of a project; `lint_quotas` those of quota shares, `traps` what a finding is
- `find`: the job behind a prefix, a name or an ARN
- `wait`: until jobs have ended
- `results`: what came of a run: parameters, metrics, time, models
- `measured`: jobs with what CloudWatch measured of them, and who waited because of them
- `costs`: what jobs held, attempt by attempt
- `workloads`: the jobs of a queue, or of a run, as a workload to simulate
- `simulated`: gauges of a simulation, and alarms replayed over them
- `queue_state`, `collect`: gauges of a queue, and the run that publishes them
"""
