#!/usr/bin/env bash
# The main job, end to end: a Deployment becomes a row in etcd through a strategy that is a Wasm module, and the module is
# replaced while clients write. Everything is below a temporary directory. It ends by itself; exit code 0 means that all
# of it happened.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=examples/deployment
work=$(mktemp -d)
server='' writer='' watcher=''

finish() {
  local code=$?
  for pid in $writer $watcher $server; do kill "$pid" 2>/dev/null || true; done
  [ -z "$server" ] || wait "$server" 2>/dev/null || true
  if [ "$code" != 0 ]; then
    echo "FAILED. The server's log:" >&2
    tail -n 20 "$work/log" >&2 2>/dev/null || true
  fi
  rm -rf "$work"
  exit "$code"
}
trap finish EXIT

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }
# refused runs what must fail, and shows how.
refused() {
  printf '$ %s\n' "$*"
  if "$@"; then echo "that was not refused" >&2; return 1; fi
}

step "build the server, its tool and two versions of a module (the first time takes minutes)"
go build -o bin/weir ./server/cmd/weir
go build -o "$work/tool" "./$here/tool"
mkdir "$work/modules"
bin/weir module build modules/deployment -o "$work/v1.wasm"
bin/weir module build "$here/strict" -o "$work/v2.wasm"
PATH="$(dirname "$("$work/tool" kubectl)"):$PATH"
cp "$work/v1.wasm" "$work/modules/deployment.wasm"

step "serve: an embedded etcd, certificates, a kubeconfig; everything below $work"
etcd=127.0.0.1:$("$work/tool" port)
bin/weir serve --data-dir "$work/data" --module-dir "$work/modules" --secure-port 0 --embedded-etcd-listen "$etcd" \
  --log-level warn >"$work/url" 2>"$work/log" &
server=$!
for _ in $(seq 600); do
  grep -q KUBECONFIG "$work/url" && break
  kill -0 "$server"
  sleep 0.1
done
cat "$work/url"
export KUBECONFIG="$work/data/admin.kubeconfig"
for _ in $(seq 600); do
  kubectl get --raw /readyz >/dev/null 2>&1 && break
  sleep 0.1
done

step "the module takes the place of the rules in CEL"
show kubectl apply -f "$here/module.yaml"
show kubectl wait --for=condition=Ready module/deployment --timeout=120s
show kubectl replace -f "$here/strategy.yaml"
show kubectl wait --for=condition=Ready strategy/deployments.apps --timeout=60s
v1=$(kubectl get module deployment -o 'jsonpath={.status.digest}')

step "a Deployment, as it was sent, is completed and stored"
kubectl get deployments --watch --output-watch-events -o 'jsonpath={.type} {.object.metadata.name} at {.object.metadata.resourceVersion}{"\n"}' >"$work/events" &
watcher=$!
show kubectl apply -f "$here/deploy.yaml"
show kubectl get deployment web -o wide
show kubectl get deployment web -o 'jsonpath={.spec.replicas} replica, {.spec.strategy}{"\n"}'

step "its row in etcd"
row=$("$work/tool" row "$etcd" /registry/apps/deployments/default/web)
echo "${row%%\{*}"
echo "…${row: -620}" | fold -w 120

step "the watch event"
for _ in $(seq 600); do
  grep -q web "$work/events" && break
  sleep 0.1
done
grep web "$work/events"

step "the module at work: what it refuses, and what it allows"
refused kubectl patch deployment web --type=merge -p '{"spec":{"replicas":-1}}'
show kubectl apply -f "$here/latest.yaml"
show kubectl delete -f "$here/latest.yaml"

step "a new version of the module, while a client writes without a pause"
"$work/tool" write "$KUBECONFIG" /apis/apps/v1/namespaces/default/deployments/web >"$work/writes" &
writer=$!
for _ in $(seq 600); do
  grep -q done "$work/writes" && break
  kill -0 "$writer"
  sleep 0.1
done
cp "$work/v2.wasm" "$work/modules/new" && show mv "$work/modules/new" "$work/modules/deployment.wasm"
for _ in $(seq 600); do
  v2=$(kubectl get module deployment -o 'jsonpath={.status.digest}')
  [ "$v2" != "$v1" ] && break
  sleep 0.1
done
echo "in force was $v1"
echo "in force is  $v2"
[ "$v2" != "$v1" ]
refused kubectl apply -f "$here/latest.yaml"

step "a broken module: it is refused, and the last good one serves"
echo "this is no module" >"$work/modules/new" && show mv "$work/modules/new" "$work/modules/deployment.wasm"
for _ in $(seq 600); do
  error=$(kubectl get module deployment -o 'jsonpath={.status.lastError}')
  [ -n "$error" ] && break
  sleep 0.1
done
echo "status.lastError: $error"
[ -n "$error" ]
[ "$(kubectl get module deployment -o 'jsonpath={.status.digest}')" = "$v2" ]
refused kubectl apply -f "$here/latest.yaml"
show kubectl annotate deployment web still=served

step "the writes meanwhile"
kill -TERM "$writer"
wait "$writer"
writer=''
cat "$work/writes"

step "SIGTERM: the server drains"
kill -TERM "$server"
wait "$server"
server=''
echo "exit code 0"
