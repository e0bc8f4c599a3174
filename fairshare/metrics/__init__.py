"""What happened on the hosts: CloudWatch series, what they say about a job, and what to change.

Pure over the port `ports.MetricSource`: time is an argument, no boto3, no I/O but the table of instance types that
comes with the package.

- `ports`: what is asked of CloudWatch and SageMaker
- `window`: which range of time and which period to ask for
- `series`: points in order, gaps, means and quantiles
- `instance_types`: devices and memory of an instance type
- `training`: the series of a training job's hosts, joined over attempts and put on one scale
- `queue`: what AWS Batch publishes of a queue
- `phases`: how long a job waited, launched, trained and uploaded
- `shape`: warm-up, idle tail and the time in between
- `spill`: what a log says about an object store that spilled
- `efficiency`: how well a job used its devices
- `facts`, `rules`: the evidence, and the table of diagnoses
- `victims`: who waited because of wasted capacity
- `compare`: two sets of runs, and whether they differ by more than noise
- `plot`: a picture of series
- `evaluate`, `expression`, `composite`: what state an alarm is in, by CloudWatch's rules
- `backtest`: alarms replayed over the past; `alarm_settings`: with other settings
- `alarm_facts`, `traps`, `review`: what is wrong with alarms, and what to change
- `gauges`: numbers about queues and shares that AWS does not publish
- `cost`, `prices`: billable time of attempts, and what an instance-hour costs
"""
