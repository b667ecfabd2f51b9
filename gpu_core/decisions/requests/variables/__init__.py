"""The job variables of a run, checked: what each may be, and what they ask for."""
