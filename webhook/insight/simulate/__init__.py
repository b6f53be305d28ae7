"""What another policy would have done: history is replayed under it, many times, with the luck that history shows."""

from webhook.insight.simulate.prediction import Figure, Outlook, Prediction, predict

__all__ = ["Figure", "Outlook", "Prediction", "predict"]
