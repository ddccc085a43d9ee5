from runtime.admin.agent import AgentAdmin
from runtime.admin.approval import ApprovalAdmin
from runtime.admin.change import ChangeAdmin
from runtime.admin.change_inbox import CHANGES
from runtime.admin.run import RunAdmin
from runtime.admin.search import find_agents
from runtime.admin.tool import ToolAdmin

__all__ = ["CHANGES", "AgentAdmin", "ApprovalAdmin", "ChangeAdmin", "RunAdmin", "ToolAdmin", "find_agents"]
