"""Features, predictors, protocols, intervals, model files and explanations."""
