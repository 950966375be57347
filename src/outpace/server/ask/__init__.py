"""A request becomes a `Job`: prompts as ids, one sampling, and how the answers are to be shown."""
