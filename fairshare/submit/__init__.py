"""From job specs to jobs in a queue: what to send, in which order and when, and a record that survives anything.

``targets -> resolve -> check -> expand sweeps -> build payloads -> requests -> waves -> journal -> dispatch``, and
``journal -> recovery -> dispatch`` for a run that was interrupted.

Pure: AWS is reached through the ports of `fairshare.submit.ports`, time and randomness are arguments. The only I/O is
the files of journal, lock and rate budget, and a look at whether the entry script exists.
"""
