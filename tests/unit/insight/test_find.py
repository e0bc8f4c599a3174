import pytest

from fairshare.insight.find import find_job, find_jobs, job_id_in
from fairshare.model import NotFoundError, UsageError

ID_A = "3f2a0000-0000-4000-8000-000000000001"
ID_B = "3f2b0000-0000-4000-8000-000000000002"


@pytest.fixture
def backend(batch, job):
    return batch(
        [
            job(ID_A, job_name="bert", created_at=1),
            job(ID_B, job_name="resnet", created_at=2),
            job("9c000000", job_name="ended", status="SUCCEEDED"),
        ]
    )


@pytest.mark.parametrize("text", [ID_A, "3f2a", "bert", f"arn:aws-cn:batch:cn-north-1:111122223333:service-job/{ID_A}"])
def test_id_prefix_name_and_arn_mean_the_same_job(backend, text):
    assert find_job(backend, "q", text).job_id == ID_A


def test_a_whole_id_needs_no_queue_and_no_listing(backend):
    find_job(backend, None, ID_A)

    assert backend.calls == [("describe", (ID_A,))]


def test_several_texts_share_one_listing_and_keep_their_order(backend):
    found = find_jobs(backend, "q", ["resnet", "3f2a", "bert"])

    assert [(text, job.job_id) for text, job in found.items()] == [("resnet", ID_B), ("3f2a", ID_A), ("bert", ID_A)]
    assert [name for name, _ in backend.calls] == ["list"]


def test_the_history_is_read_only_when_nothing_active_matches(backend):
    assert find_job(backend, "q", "ended").job_id == "9c000000"
    assert [statuses is None for _, statuses in backend.calls] == [False, True]


def test_a_name_wins_over_a_prefix(backend, job):
    backend.jobs["9d"] = job("9d", job_name="3f")

    assert find_job(backend, "q", "3f").job_id == "9d"


def test_an_ambiguous_prefix_lists_the_matches_newest_first(backend):
    with pytest.raises(UsageError) as caught:
        find_job(backend, "q", "3f2")

    assert caught.value.message.splitlines() == [
        "'3f2' fits 2 jobs:",
        f"  {ID_B}  resnet  RUNNABLE",
        f"  {ID_A}  bert  RUNNABLE",
    ]
    assert caught.value.hint == "give more of the name, or the id"


def test_a_long_list_of_matches_is_cut(batch, job):
    backend = batch(job(f"aa{number}") for number in range(11))

    with pytest.raises(UsageError, match=r"and 3 more\Z"):
        find_job(backend, "q", "aa")


def test_nothing_found_names_the_closest_job(backend):
    with pytest.raises(NotFoundError) as caught:
        find_job(backend, "q", "bret")

    assert caught.value.message == "no job goes by 'bret' in queue q"
    assert caught.value.hint.startswith("did you mean bert? `fairshare queue --all` lists the jobs")


def test_a_whole_id_that_batch_does_not_know_is_not_found(backend):
    with pytest.raises(NotFoundError, match="no job goes by"):
        find_job(backend, None, ID_A[:-1] + "9")


def test_a_prefix_without_a_queue_says_what_to_do(backend):
    with pytest.raises(UsageError) as caught:
        find_job(backend, None, "3f2a")

    assert caught.value.message == "no queue is chosen in which to look for '3f2a'"
    assert "-q QUEUE" in caught.value.hint


def test_empty_text_never_means_the_only_job(batch, job):
    with pytest.raises(UsageError, match="empty"):
        find_job(batch([job("a")]), "q", "")


def test_only_whole_ids_and_arns_are_ids_by_themselves():
    assert job_id_in(ID_A) == ID_A
    assert job_id_in(f"arn:aws:batch:r:1:service-job/{ID_A}") == ID_A
    assert job_id_in("3f2a") is None


def test_a_unique_beginning_of_a_name_is_enough(backend):
    assert find_job(backend, "q", "resn").job_id == ID_B


def test_a_prefix_of_an_id_wins_over_a_prefix_of_a_name(backend, job):
    backend.jobs["9d"] = job("9d", job_name="3f2a-model")

    assert find_job(backend, "q", "3f2a").job_id == ID_A
