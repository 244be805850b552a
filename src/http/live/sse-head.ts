/** Heads of answers to readers of event streams. */
import { formatOffset } from '../../protocol/header-values.ts';
import { isText } from '../../protocol/media-type.ts';
import { REPLY_RECORDS, type Reply } from '../../protocol/reply.ts';
import { RECORD_EXTENSION, type Responder } from '../response.ts';
import { shownContentType } from '../stored-type.ts';
import type { UwsResponse } from '../uws.ts';
import { VIEW_BASE64, VIEW_TEXT, type View } from './sse-frames.ts';

export function viewOf(reply: Reply): View {
  return isText(shownContentType(reply)) ? VIEW_TEXT : VIEW_BASE64;
}

export function writeStreamHead(res: UwsResponse, responder: Responder, reply: Reply, view: View): void {
  responder.begin(res, 200, 'no-cache');
  res.writeHeader('content-type', 'text/event-stream');
  res.writeHeader('stream-data-content-type', shownContentType(reply));
  if (view === VIEW_BASE64) res.writeHeader('stream-sse-data-encoding', 'base64');
  if (reply.has(REPLY_RECORDS)) res.writeHeader('stream-extensions', RECORD_EXTENSION);
}

/** The whole answer to a reader that has been told that the stream is closed: 204 makes an EventSource stop reconnecting. */
export function answerNothingMore(res: UwsResponse, responder: Responder, reply: Reply): number {
  responder.begin(res, 204);
  res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
  res.writeHeader('stream-closed', 'true');
  res.endWithoutBody();
  return 204;
}
