from django.apps import AppConfig


class ReflectionConfig(AppConfig):
    name = "reflection"

    def ready(self) -> None:
        from celery.signals import worker_init

        from memory.events import add_listener
        from memory.heuristics.extensions import add_erasure, add_flags, add_reflection_request, add_tallies
        from memory.intake.recording import trajectory_recorded
        from memory.persons.sources import add_person_sources
        from memory.releases.manifest import add_prompt_versions
        from memory.retrieval.cross_encoder import register_reranker
        from memory.retrieval.llm_ranking import register_ranker
        from memory.trust.invariants import add_invariants
        from reflection.consolidation.results import forget_run
        from reflection.invariants import INVARIANTS
        from reflection.jobs.kinds import register_kind
        from reflection.jobs.workers import add_caretaker
        from reflection.persons import SOURCES
        from reflection.prompts import find_versions
        from reflection.rankers.cross_encoder import find_http_reranker
        from reflection.rankers.language_model import find_provider_ranker
        from reflection.reflectors.groups import forget_shown
        from reflection.reflectors.requests import queue_reflection, reflect_on_run_again
        from reflection.reflectors.tallies import find_flags, find_tallies
        from reflection.tasks import KINDS
        from reflection.webhooks.outbox import queue_deliveries

        trajectory_recorded.connect(queue_reflection, dispatch_uid="reflection.queue_reflection")
        add_listener(queue_deliveries)
        add_prompt_versions(find_versions)
        add_invariants(INVARIANTS)
        add_erasure(forget_run)
        add_erasure(forget_shown)
        add_person_sources(*SOURCES)
        add_flags(find_flags)
        add_tallies(find_tallies)
        add_reflection_request(reflect_on_run_again)
        register_ranker(find_provider_ranker)
        register_reranker(find_http_reranker)
        for kind in KINDS:
            register_kind(kind)
        worker_init.connect(add_caretaker, dispatch_uid="reflection.add_caretaker")
