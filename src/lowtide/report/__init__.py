"""What plans and programs say, as values that any output can render: explanations, differences, budgets.

Nothing here knows of terminals, JSON or Markdown; ``lowtide.outputs`` and the command line do.
"""
