"""What every attempt cost, and why: the model, and the controller that counts, writes and ends what is spent."""
