#!/bin/bash
# A canary image through every ensemble: exit 0 healthy, 1 not. Triton neither restarts a dead Python
# stub nor stops calling itself ready, so what a fresh server would cure is cured here: the server is
# ended and the restart policy starts it again (which needs init: true, PID 1 cannot be killed inside).
#
#   dead stub                      the server is ended at once
#   canary failed (500, or nobody is answered) score + 2; at 4 the server is ended
#   canary passed                  score - 1: of two stubs with one hung, every other canary fails
#   shedding load (503 or no answer, but others have been answered since)   not sick: score unchanged
#   refused (other codes, an error as result)   unhealthy, but a restart would not change the answer
set -u

base_url=${HEALTHCHECK_URL:-http://127.0.0.1:8000}
metrics_url=${HEALTHCHECK_METRICS_URL:-http://127.0.0.1:8002/metrics}
models=${HEALTHCHECK_MODELS:-/models}
canary=${HEALTHCHECK_CANARY:-/usr/local/share/triton/canary.json}
state=${HEALTHCHECK_STATE:-/tmp/healthcheck}
proc=${HEALTHCHECK_PROC:-/proc}
fatal_score=4
canary_timeout_s=4

if [ -e "${TRITON_DRAIN_FILE:-}" ]; then echo "the server drains"; exit 0; fi

read_state() { cat "$state.$1" 2> /dev/null || echo 0; }

end_server() {
  echo "$1: ending the server"
  rm -f "$state".*
  local comm
  for comm in "$proc"/[0-9]*/comm; do
    [ "$(cat "$comm" 2> /dev/null)" = tritonserver ] && kill -KILL "$(basename "$(dirname "$comm")")"
  done
  exit 1
}

dead_stubs() { grep -lsE '^[0-9]+ \(triton_python_b\) Z' "$proc"/[0-9]*/stat | sort; }

answered_requests() { # by the ensemble $1, since the server started
  curl -fsS -m 2 "$metrics_url" 2> /dev/null \
    | awk -v label="{model=\"$1\"," 'index($0, "nv_inference_request_success" label) {sum += $NF} END {printf "%d", sum}'
}

# A stub that ends as it should is a zombie too, until the server has noticed: it gets a second.
dead=$(dead_stubs)
if [ -n "$dead" ]; then
  sleep 1
  [ -n "$(comm -12 <(echo "$dead") <(dead_stubs))" ] && end_server "a Python stub has died"
fi

failed='' refused='' shed=''
for folder in "$models"/*_ensemble; do
  name=$(basename "$folder")
  reply=$(curl -sS -m "$canary_timeout_s" -w '\n%{http_code}' -H 'Content-Type: application/json' \
    --data-binary "@$canary" "$base_url/v2/models/$name/infer" 2>&1)
  outcome=$? code=${reply##*$'\n'}
  case $outcome:$code in
    0:200) [[ $reply == *'\"error\"'* ]] && refused="$name: ${reply%$'\n'*}" ;;
    0:500) failed="$name: ${reply%$'\n'*}" ;;
    7:*) echo "the server does not listen yet"; exit 1 ;;
    0:503 | 28:*)
      if [ "$(answered_requests "$name")" -gt "$(read_state "$name")" ]; then shed=$name
      else failed="$name: nothing answered since the last check, ${reply%$'\n'*}"; fi ;;
    *) refused="$name: ${reply%$'\n'*} ($code)" ;;
  esac
  answered_requests "$name" > "$state.$name"
done

score=$(read_state score)
if [ -n "$failed" ]; then
  score=$((score + 2))
  echo "$score" > "$state.score"
  [ "$score" -ge "$fatal_score" ] && end_server "$failed (score $score)"
  echo "$failed (score $score)"
  exit 1
fi
if [ -n "$refused" ]; then echo "$refused"; exit 1; fi
if [ -n "$shed" ]; then echo "shedding load: $shed"; exit 0; fi
[ "$score" -gt 0 ] && echo $((score - 1)) > "$state.score"
echo "every canary answered"
