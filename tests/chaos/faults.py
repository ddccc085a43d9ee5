"""The faults F1 to F26: the tests or the command that cause each, and the seconds it may take."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, the tests that cause it and the seconds they may take in each profile.

    Attributes:
        quick_weight, full_weight, soak_weight: seconds they took in a profile, by which they are shared out there;
            those of the full profile are estimated from the soak's. 0 is as in the full profile.
        soak_seconds: they may take in the full profile too.
        quick_tests: those of the quick profile, where the others are no more than the suite shows anyway.
        alone: its figures are times, so nothing else of the run goes on meanwhile.
        apart: its tests may run in several processes, beside each other.
        quick_command, full_command, soak_command: module and arguments of a fault that no test can cause.
    """

    name: str
    what: str
    tests: tuple[str, ...] = ()
    quick_tests: tuple[str, ...] = ()
    quick_command: tuple[str, ...] = ()
    full_command: tuple[str, ...] = ()
    soak_command: tuple[str, ...] = ()
    quick_seconds: int = 180
    soak_seconds: int = 900
    quick_weight: int = 10
    full_weight: int = 60
    soak_weight: int = 0
    alone: bool = False
    apart: bool = False


_DATABASE = "tests/chaos/test_database_faults.py"
_TENANCY = "tests/contract/test_tenancy.py"
_STATES = "tests/contract/test_state_machine.py"
_WORKERS = "tests/chaos/test_worker_kills.py"

FAULTS = (
    Fault(
        name="F1",
        what="web workers killed in the middle of a POST",
        tests=("tests/chaos/test_idempotency_kills.py",),
        alone=True,
        quick_seconds=240,
        quick_weight=24,
        full_weight=130,
        soak_weight=430,
    ),
    Fault(
        name="F2",
        what="a crash at every SQL statement and decisive moment of everything that writes",
        tests=(
            "tests/chaos/test_crash_points.py",
            "tests/chaos/test_decisive_moments.py",
        ),
        quick_seconds=360,
        quick_weight=70,
        full_weight=350,
        soak_weight=1050,
    ),
    Fault(
        name="F3", what="identical requests at once", tests=("tests/chaos/test_idempotency_races.py",), quick_weight=22
    ),
    Fault(name="F4", what="answers lost after the commit", tests=("tests/chaos/test_lost_answers.py",), quick_weight=3),
    Fault(
        name="F5",
        what="workers and their children killed",
        tests=(f"{_WORKERS}::test_killed_workers_lose_and_repeat_nothing",),
        quick_seconds=240,
        soak_seconds=1800,
        quick_weight=20,
        full_weight=120,
        soak_weight=700,
    ),
    Fault(
        name="F6",
        what="workers frozen past their lease",
        tests=(f"{_WORKERS}::test_worker_that_hung_past_its_lease_is_fenced",),
        full_weight=40,
        soak_weight=170,
    ),
    Fault(
        name="F7",
        what="the broker refused, killed, flushed, half-open, slow, reset, stopped, frozen",
        tests=("tests/chaos/test_broker_faults.py", "tests/chaos/test_broker_loss.py"),
        quick_tests=(
            "tests/chaos/test_broker_faults.py",
            "tests/chaos/test_broker_loss.py::test_forgotten_messages_are_sent_again_and_new_ones_taken",
            "tests/chaos/test_broker_loss.py::test_queue_is_drained_with_neither_broker_nor_worker",
        ),
        quick_seconds=270,
        alone=True,
        quick_weight=22,
    ),
    Fault(
        name="F8",
        what="PostgreSQL restarted, its clients ended and killed, frozen, without a connection left",
        tests=(f"{_DATABASE}::test_acknowledged_rows_outlive_what_happens_to_the_database",),
        quick_seconds=300,
        soak_seconds=1800,
        alone=True,
        quick_weight=15,
    ),
    Fault(
        name="F9",
        what="the disk of PostgreSQL filled (for root on Linux)",
        quick_command=("tests.chaos.disk_full", "--times", "1"),
        full_command=("tests.chaos.disk_full", "--times", "2"),
        soak_command=("tests.chaos.disk_full", "--times", "5"),
    ),
    Fault(
        name="F10",
        what="everything a provider can do wrong",
        tests=("tests/chaos/provider_faults.py", "tests/reflection/providers/test_failures.py"),
        quick_tests=("tests/chaos/provider_faults.py",),
        soak_seconds=2400,
        quick_weight=9,
        full_weight=300,
        soak_weight=1480,
    ),
    Fault(
        name="F11",
        what="reflections that kill their worker",
        tests=(f"{_WORKERS}::test_reflection_that_kills_its_worker_is_dead_after_five_claims_and_others_finish",),
        quick_weight=14,
        full_weight=90,
        soak_weight=340,
    ),
    Fault(
        name="F12",
        what="web servers and workers replaced under load",
        tests=("tests/chaos/test_rolling_restarts.py",),
        quick_seconds=240,
        quick_weight=21,
        full_weight=100,
        soak_weight=230,
    ),
    Fault(
        name="F13",
        what="clocks an hour ahead and behind, and at the end of summer time",
        tests=("tests/chaos/test_clocks.py", "tests/chaos/worker_clocks.py"),
        quick_seconds=240,
        quick_weight=26,
        full_weight=45,
        soak_weight=95,
    ),
    Fault(
        name="F14",
        what="fuzzed requests",
        tests=("tests/security/test_fuzz.py::test_fuzzed_requests_never_break_the_contract",),
        soak_seconds=3600,
        full_weight=170,
        soak_weight=750,
    ),
    Fault(
        name="F15",
        what="every operation with foreign keys and ids",
        tests=(_TENANCY,),
        quick_tests=(
            f"{_TENANCY}::test_operation_on_what_belongs_to_another_project_answers_404_and_changes_nothing",
            f"{_TENANCY}::test_operation_under_its_idempotency_key_shows_nothing_to_another_project",
            f"{_TENANCY}::test_list_shows_nothing_of_another_project",
            f"{_TENANCY}::test_filter_by_a_foreign_trajectory_shows_nothing",
            f"{_TENANCY}::test_feedback_that_names_a_foreign_row_answers_404",
        ),
        quick_seconds=420,
        quick_weight=7,
    ),
    Fault(
        name="F16",
        what="poisoned runs",
        tests=("tests/security/test_poisoning.py",),
        soak_seconds=1800,
        quick_weight=6,
        full_weight=60,
        soak_weight=160,
    ),
    Fault(
        name="F17",
        what="the kill switch under load",
        tests=("tests/chaos/test_quarantine_under_load.py",),
        alone=True,
        quick_weight=5,
    ),
    Fault(
        name="F18",
        what="planted secrets",
        tests=(
            "tests/security/test_secrets_everywhere.py",
            "tests/memory/test_redaction.py",
            "tests/contract/test_redaction_storage.py",
        ),
        quick_tests=("tests/security/test_secrets_everywhere.py", "tests/contract/test_redaction_storage.py"),
    ),
    Fault(
        name="F19",
        what="addresses that must not be reached",
        tests=(
            "tests/memory/test_egress.py",
            "tests/reflection/providers/test_connections.py",
            "tests/reflection/providers/test_tls.py",
        ),
        quick_weight=1,
    ),
    Fault(
        name="F20",
        what="300 texts that try to run in a reviewer's browser",
        tests=("tests/e2e/test_xss.py",),
        soak_seconds=1200,
        quick_seconds=240,
        quick_weight=40,
    ),
    Fault(
        name="F21",
        what="erased canaries, restored backups",
        tests=("tests/security/test_erasure.py", "tests/security/test_backup.py"),
        quick_tests=(
            "tests/security/test_erasure.py::test_erased_canaries_are_nowhere",
            "tests/security/test_erasure.py::test_exported_ledger_erases_what_a_backup_restored",
        ),
        quick_seconds=120,
        quick_weight=2,
    ),
    Fault(
        name="F22",
        what="the embedding model switched while agents ask",
        tests=(
            "tests/chaos/test_retrieval_faults.py::test_model_switched_while_agents_ask",
            "tests/chaos/test_retrieval_faults.py::test_embedder_killed",
            "tests/memory/test_reembed.py",
        ),
        quick_tests=("tests/chaos/test_retrieval_faults.py::test_model_switched_while_agents_ask",),
        quick_seconds=120,
        quick_weight=3,
    ),
    Fault(
        name="F23",
        what="any order of steps",
        tests=(
            f"{_STATES}::test_no_order_of_steps_breaks_a_rule",
            f"{_STATES}::test_no_other_order_of_steps_breaks_a_rule",
        ),
        soak_seconds=5400,
        apart=True,
        quick_weight=5,
        full_weight=480,
        soak_weight=3900,
    ),
    Fault(
        name="F24",
        what="mixed load for a while, and whether anything grows",
        quick_command=("tests.chaos.soak", "--minutes", "0.5"),
        full_command=("tests.chaos.soak", "--minutes", "10"),
        soak_command=("tests.chaos.soak", "--minutes", "20"),
        full_weight=630,
        soak_weight=1230,
        soak_seconds=1500,
    ),
    Fault(
        name="F25",
        what="broken variants that must be noticed",
        tests=(
            "tests/chaos/test_history.py",
            "tests/chaos/test_proxy.py",
            "tests/chaos/test_idempotency_kills.py::test_check_notices_duplicates_of_a_key_recorded_in_a_second_transaction",
            "tests/chaos/test_idempotency_races.py::test_check_notices_a_key_recorded_in_a_second_transaction",
            "tests/chaos/test_crash_points.py::test_work_in_two_transactions_is_noticed",
            "tests/reflection/test_services_claims.py::test_the_same_worker_would_write_twice_without_the_fence",
            "tests/contract/test_redaction_storage.py::test_a_secret_that_was_stored_would_be_found",
            "tests/security/test_invariants.py::test_invariant_finds_its_violation",
            "tests/security/test_audit.py::test_tampering_with_the_triggers_off_is_found",
            "tests/security/test_backup.py::test_copy_that_differs_is_found_and_leaves_no_file",
            "tests/security/test_servable_role.py::test_statement_without_a_filter_finds_nothing_unapproved",
            "tests/security/test_servable_role.py::test_search_that_reads_a_table_is_refused_as_the_role",
            "tests/security/test_negative_controls.py",
            f"{_STATES}::test_broken_world_is_noticed",
            "tests/security/test_fuzz.py::test_check_notices_what_the_document_does_not_describe",
            f"{_DATABASE}::test_check_notices_rows_of_a_database_that_does_not_wait_for_the_disk",
        ),
        quick_tests=(
            "tests/security/test_negative_controls.py",
            f"{_STATES}::test_broken_world_is_noticed",
            "tests/security/test_invariants.py::test_invariant_finds_its_violation",
            "tests/chaos/test_idempotency_races.py::test_check_notices_a_key_recorded_in_a_second_transaction",
            "tests/chaos/test_crash_points.py::test_work_in_two_transactions_is_noticed",
            "tests/reflection/test_services_claims.py::test_the_same_worker_would_write_twice_without_the_fence",
            "tests/security/test_servable_role.py::test_statement_without_a_filter_finds_nothing_unapproved",
        ),
        quick_seconds=360,
        quick_weight=38,
    ),
    Fault(
        name="F26",
        what="random writes past the application",
        tests=("tests/security/test_random_writes.py",),
        quick_weight=7,
    ),
)
