"""What the two programs have in common: `serve`, the webhook, and `control`, the controller."""
