"""The process launcher: training jobs as processes of this machine, and what they use of it.

* `launcher`: the adapter of `fairshare.local.launcher.Launcher`; `attempt_run`: the life of one attempt
* `training_request`, `container`, `localise`, `job_python`: SageMaker's container contract in a directory
* `job_storage`, `log_shipper`, `final_metrics`: S3, CloudWatch Logs, and what the log tells
* `job_process`, `shim`, `tree`: the processes of a job, from start to the last one killed
* `allotment`, `usage`, `gpus`, `disk`: what is there for jobs, and what the processes of one use at an instant
* `meter`: readings into the points of CloudWatch; `sampler`: the thread that reads and publishes; `period`: how often

Nothing is imported here: boto3 and psutil are heavy.
"""
