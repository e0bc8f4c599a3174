"""The scheduler core: one pure engine behind the local AWS, the simulator and every prediction.

* `policy`: share arithmetic; the only place that inverts a weight
* `queues`: environments, queues and shares, and the choice of the next job
* `engine`: the state machine and its event heap
* `driver`: moves an engine and an executor forward on a clock
* `clock`: the only place that reads the machine's time
"""
