"""The values that travel: Program and FlowGraph (what runs), Problem (what is placed), Plan (where)."""
