"""Train a small neural network on scikit-learn's handwritten digits and save it with its accuracy.

An ordinary SageMaker training script: hyperparameters arrive as flags, the model goes to ``SM_MODEL_DIR``.
"""

import argparse
import json
import os
from pathlib import Path

import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(
        images / 16.0, labels, test_size=0.25, random_state=0, stratify=labels
    )
    model = MLPClassifier(
        hidden_layer_sizes=(args.hidden,),
        learning_rate_init=args.lr,
        batch_size=64,
        random_state=args.seed,
    )
    accuracy = 0.0
    for epoch in range(1, args.epochs + 1):
        model.partial_fit(x_train, y_train, classes=np.arange(10))
        accuracy = float(model.score(x_test, y_test))
        print(f"epoch {epoch} of {args.epochs}  loss {model.loss_:.4f}  accuracy {accuracy:.4f}", flush=True)

    model_dir = Path(os.environ["SM_MODEL_DIR"])
    joblib.dump(model, model_dir / "model.joblib")
    (model_dir / "metrics.json").write_text(json.dumps({"accuracy": accuracy, **vars(args)}) + "\n")


if __name__ == "__main__":
    main()
