/**
 * The reserved routes below /v1/stream/__ds/: subscriptions, and the public keys of their webhooks. What they mean is
 * decided by the port behind them; here a request becomes a value and an answer becomes a response.
 */
import { SUBSCRIPTION_BODY_BYTES_MAX } from '../../base/limits.ts';
import type { ControlAnswer, ControlHead, ControlPort, ControlTask } from '../../subscriptions/ports.ts';
import { declaredBytes } from '../headers.ts';
import { CONTROL_PREFIX } from '../paths.ts';
import type { BodyConsumer, RequestContext } from '../request.ts';
import { INSUFFICIENT, JSON_TYPE, type Responder } from '../response.ts';
import { controlRights } from '../../tenants/subscription-rights.ts';
import type { UwsResponse } from '../uws.ts';

export function handleControl(call: RequestContext, port: ControlPort): void {
  const { method, req, server } = call;
  const scheme = server.settings.tls === undefined ? 'http' : 'https';
  const head: ControlHead = {
    method: method === 'head' ? 'get' : method,
    path: call.path.url.slice(CONTROL_PREFIX.length),
    authorization: req.getHeader('authorization'),
    origin: `${scheme}://${req.getHeader('host')}`,
    rights: controlRights(call.credentials, server.limits),
  };
  const declared = declaredBytes(req.getHeader('content-length'));
  const opened = openTask(port, head);
  call.keep();
  if (!('run' in opened)) return answer(call, opened);
  const task = taskOf(port, opened);
  if (head.method === 'get') return task.consume(call, new Uint8Array(0));
  const budget = opened.fromStranger === true ? server.strangers : server.budget;
  return call.readBody(declared, task, budget);
}

/** The methods that `Allow` names for a path below the prefix: the port tells them to a method that nothing has. */
export function allowOfControl(port: ControlPort, url: string): string {
  const path = url.slice(CONTROL_PREFIX.length);
  const opened = openTask(port, { method: 'options', path, authorization: '', origin: '' });
  return 'run' in opened ? '' : (opened.allow ?? '');
}

function openTask(port: ControlPort, head: ControlHead): ControlAnswer | ControlTask {
  try {
    return port.open(head);
  } catch (error) {
    const answer = port.refusal(error);
    if (answer === undefined) throw error;
    return answer;
  }
}

function taskOf(port: ControlPort, task: ControlTask): BodyConsumer {
  return {
    consume(call, body) {
      // The memory is gone after this call.
      task.run(body.slice()).then(
        (result) => answer(call, result),
        (error: unknown) => {
          const refusal = port.refusal(error);
          if (refusal !== undefined) return answer(call, refusal);
          call.server.logError(error, call.operation, call.requestId);
          return call.fail('INTERNAL');
        },
      );
    },
    tooLarge(call) {
      const message = `the body exceeds ${SUBSCRIPTION_BODY_BYTES_MAX} bytes`;
      answer(call, { status: 413, json: { error: { code: 'INVALID_REQUEST', message } } });
    },
  };
}

function answer(call: RequestContext, result: ControlAnswer): void {
  const { responder } = call;
  const { allow } = result;
  if (allow === undefined) call.respond((res) => write(res, responder, result));
  else call.respond((res) => responder.methodNotAllowed(res, allow));
}

/** The code of `{"error":{"code":...}}`, the shape of all refusals here. */
function codeOf(json: unknown): string | undefined {
  if (typeof json !== 'object' || json === null || !('error' in json)) return undefined;
  const { error } = json;
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

function write(res: UwsResponse, responder: Responder, answer: ControlAnswer): number {
  const { status, json, contentType, cache, retry } = answer;
  responder.begin(res, status, cache, codeOf(json));
  if (retry === true) res.writeHeader('retry-after', '1');
  if (status === 401) res.writeHeader('www-authenticate', 'Bearer');
  if (status === 403) res.writeHeader('www-authenticate', INSUFFICIENT);
  if (json !== undefined) res.writeHeader('content-type', contentType ?? JSON_TYPE);
  if (json === undefined) res.endWithoutBody();
  else responder.end(res, JSON.stringify(json));
  return status;
}
