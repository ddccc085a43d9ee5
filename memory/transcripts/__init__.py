"""Read what agents and their tools log: messages, traces and session files become one neutral form.

Standard library only and without the rest of the project, so that the server, the client and the commands share it.
"""
