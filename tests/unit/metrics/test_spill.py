from fairshare.metrics.spill import spilled_mib

RAYLET = "(raylet) Spilled {} MiB, {} objects, write throughput 332 MiB/s."


def test_totals_are_running_totals_of_a_host_and_hosts_add_up():
    lines = [
        ("algo-1", RAYLET.format(2280, 12)),
        ("algo-2", RAYLET.format(2100, 9)),
        ("algo-1", "local_object_manager.cc:244: :info_message:" + RAYLET.format(4400, 25)),
    ]

    assert spilled_mib(lines) == 6500


def test_other_lines_do_not_count():
    assert spilled_mib([("algo-1", "Spilled coffee over 3 MiB"), ("algo-1", "epoch 1")]) == 0
