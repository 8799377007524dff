"""bench/apps/xgboost_train.py - XGBoost: trees on device="cuda", and their answers."""
import numpy as np
import xgboost

from common import report

RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=(20000, 30)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] + np.sin(X[:, 2]) > 0.2).astype(np.float32)


def work():
    data, seen = xgboost.DMatrix(X, label=Y), {}
    trees = xgboost.train({"device": "cuda", "tree_method": "hist", "objective": "binary:logistic", "max_depth": 6, "seed": 1},
                          data, 30, evals=[(data, "train")], evals_result=seen, verbose_eval=False)
    return [seen["train"]["logloss"][::10], float(trees.predict(data).astype("float64").sum())]


report(f"xgboost {xgboost.__version__}", work)
