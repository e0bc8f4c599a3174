from fairshare.metrics.ports import Point
from fairshare.metrics.queue import COUNTS, DURATIONS, queue_queries, queue_series


def test_counts_are_added_up_and_durations_averaged():
    queries = {query.name: query for query in queue_queries("search-gpu", 300)}

    assert {queries[name].statistic for name in COUNTS} == {"Sum"}
    assert {queries[name].statistic for name in DURATIONS} == {"Average"}
    assert queries["JobsSubmitted"].dimensions == (("JobQueueName", "search-gpu"),)


def test_series_carry_their_unit():
    answers = {query: (Point(0, 3),) for query in queue_queries("search-gpu", 300)}
    units = {series.name: series.unit for series in queue_series(answers)}

    assert (units["JobsSubmitted"], units["JobAttemptDuration"]) == ("Count", "Milliseconds")
