from agents.admin.agent import AgentAdmin
from agents.admin.approval import ApprovalAdmin
from agents.admin.change import ChangeAdmin
from agents.admin.change_inbox import CHANGES
from agents.admin.run import RunAdmin
from agents.admin.search import find_agents
from agents.admin.tool import ToolAdmin

__all__ = ["CHANGES", "AgentAdmin", "ApprovalAdmin", "ChangeAdmin", "RunAdmin", "ToolAdmin", "find_agents"]
