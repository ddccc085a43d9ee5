from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    name = "runtime"
    # The label stands in tables, permissions and addresses; the OpenAI Agents SDK owns the import name.
    label = "agents"

    def ready(self) -> None:
        # Models can be imported only once all apps are loaded.
        from celery.signals import worker_init

        from memory.events import add_listener
        from memory.heuristics.extensions import add_erasure
        from memory.passages.storage import add_passage_sources
        from memory.persons.sources import add_person_sources
        from memory.releases.manifest import add_manifest_part
        from memory.transfer.checks import add_check
        from memory.trust.audit import add_comparisons
        from memory.trust.periods import add_retention_periods
        from reflection.jobs.kinds import register_kind
        from runtime.audit import COMPARISONS
        from runtime.changes.ladder import deployed_agents, follow_deployment
        from runtime.changes.tools import TOOLS
        from runtime.erasure import forget_agent_run
        from runtime.kinds import AGENT_CHANGE, AGENT_RUN, AGENT_SLEEP
        from runtime.loop.readiness import prepare_worker
        from runtime.models.agents import Agent
        from runtime.models.runs import Run
        from runtime.persons import CONVERSATIONS_PERIOD, SOURCES
        from runtime.tools.catalogue import add_core_tools
        from runtime.transfer import find_changed_revisions

        register_kind(AGENT_RUN)
        register_kind(AGENT_CHANGE)
        register_kind(AGENT_SLEEP)
        add_core_tools(*TOOLS)
        add_comparisons(*COMPARISONS)
        add_check(find_changed_revisions)
        add_manifest_part("agents", deployed_agents)
        add_listener(follow_deployment)
        add_erasure(forget_agent_run)
        add_person_sources(*SOURCES)
        add_retention_periods(CONVERSATIONS_PERIOD)
        add_passage_sources(owners=Agent, runs=Run)
        worker_init.connect(prepare_worker, dispatch_uid="agents.prepare_worker")
