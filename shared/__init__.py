"""The ground floor: values, contracts, stores, model clients. Imports neither coordinator, workers nor ops."""
