"""From a job spec, or a user's own ``ModelTrainer``, to the frozen request that Batch sends to SageMaker.

* `payload`: the `fairshare.submit.ports.Payloads` adapter, and the one place that calls the SDK's private builder
* `template`: one request of the SDK for all jobs of a sweep, varied to each of them
* `trainers`: the ModelTrainer that is built from: made of a job spec, or a twin of the user's own
* `session`: a SageMaker ``Session`` that records uploads instead of doing them, and never opens a connection
* `recorder`: what should be in S3, under URIs that depend on nothing but content
* `source`: a directory as what is uploaded of it
* `ignore`: what of a directory is not source: git's ignore files, and names that never are
* `encode`: hyperparameters as the strings SageMaker takes, environment values, merging of raw fields
* `drivers`: what the SDK's scripts in the container cannot carry
* `targets`: ``train_all.py:trainers`` -> job specs
* `sdk`: importing and calling the SDK without its log lines, warnings and telemetry

The SageMaker SDK takes more than a second to import, so nothing here imports it before it is needed: `session` and
`trainers` import it at their top and are themselves imported only inside functions.
"""
