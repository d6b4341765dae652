"""What an instrument raises for a model that it was not built for, or whose numbers leave nothing to measure."""


class Unmeasurable(ValueError):
    """This cannot be measured on this model; the message is the reason, in one line that is true of the model."""
