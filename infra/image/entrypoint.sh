#!/bin/sh
# Starts a command as Prefect's own image does: EXTRA_PIP_PACKAGES are installed first.
# They go to the user's site-packages below HOME, which has to be writable; the locked packages of
# the image come first on Python's path, so that none of them is replaced.
set -e
if [ -n "${EXTRA_PIP_PACKAGES:-}" ]; then
    echo "+pip install --user $EXTRA_PIP_PACKAGES"
    # Unquoted on purpose: the variable is a list of words.
    # shellcheck disable=SC2086
    pip install --user --no-cache-dir --disable-pip-version-check $EXTRA_PIP_PACKAGES
    export PATH="$HOME/.local/bin:$PATH"
fi
exec "$@"
