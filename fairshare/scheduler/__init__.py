"""The scheduler core: one pure engine behind the local AWS, the simulator and every prediction.

* `policy`: share arithmetic; the only place that inverts a weight
* `commands`, `outcomes`: what the engine is told, and what it tells
* `jobs`, `shares`, `queues`: state, and the choice of the next job
* `retries`: what follows a failed attempt
* `heads`: blocked heads and their clocks
* `engine`: the state machine and its event heap; import the vocabulary from here
* `driver`: moves an engine and an executor forward on a clock
* `clock`: the only place that reads the machine's time
"""
