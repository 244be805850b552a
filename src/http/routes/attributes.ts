/** GET and PUT /{bucket}/{stream}/attrs. */
import { ATTRIBUTES_BYTES_MAX } from '../../base/limits.ts';
import { isJson } from '../../protocol/media-type.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';
import type { Reply } from '../../protocol/reply.ts';
import { requestFor } from '../../protocol/request.ts';
import { writeHeaders, declaredBytes } from '../headers.ts';
import type { BodyConsumer, ReplyRenderer, RequestContext } from '../request.ts';
import { JSON_TYPE } from '../response.ts';
import type { UwsResponse } from '../uws.ts';

/**
 * Bytes of an attribute body as sent. The limit of 16 KiB counts the normalised form, which may be smaller: blanks, escapes
 * and unknown members go. But attributes travel inside the mailbox frame, so what is sent needs a bound too.
 */
export const SENT_BYTES_MAX = 8 * ATTRIBUTES_BYTES_MAX;

export function handleGetAttributes(call: RequestContext): void {
  call.ask(QUERIES.getAttributes, GET);
}

const GET: ReplyRenderer = {
  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    if (reply.code !== 0) return responder.refusal(res, call.family, reply);
    responder.begin(res, 200);
    res.writeHeader('content-type', JSON_TYPE);
    responder.end(res, reply.body ?? '{}');
    return 200;
  },
};

export function handlePutAttributes(call: RequestContext): void {
  const { contentType, contentLength } = writeHeaders();
  if (contentType === undefined || contentType.trim() === '') return call.refuse('MISSING_CONTENT_TYPE');
  if (!isJson(contentType)) return call.refuse('INVALID_HEADER', 'Content-Type must be application/json');
  return call.readBody(declaredBytes(contentLength), PUT);
}

const PUT: BodyConsumer & ReplyRenderer = {
  tooLarge(call: RequestContext): void {
    call.refuse('INVALID_ATTRIBUTES', `the body exceeds ${SENT_BYTES_MAX} bytes`);
  },

  consume(call: RequestContext, body: Uint8Array): void {
    if (body.length === 0) return call.refuse('INVALID_ATTRIBUTES', 'the body is empty; send {} to clear them');
    const { bucket, stream } = call;
    const request = requestFor(COMMANDS.setAttributes, call.group, { bucket, stream, attributes: body });
    return call.send(request, PUT);
  },

  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    if (reply.code !== 0) return responder.refusal(res, call.family, reply);
    responder.begin(res, 204);
    res.endWithoutBody();
    return 204;
  },
};
