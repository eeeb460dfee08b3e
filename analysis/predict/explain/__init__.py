"""Why a prediction is what it is: contributions, sentences, interactions, disagreement with a measurement.

Start with `explain`; `shapley` computes the values.
"""
