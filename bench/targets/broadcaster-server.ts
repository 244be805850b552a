// Runs as a separate process: `broadcaster-server PORT`. A POST is written immediately to every open GET of the same
// path, framed as the protocol frames it (a data event and a control event), so both sides move the same bytes. A
// WebSocket gets them as an EVENT of a session, by the library's own way to publish.

import assert from 'node:assert/strict';
import { MessageWriter } from '../../src/session/messagepack.ts';
import { FieldWriter, beginEvent, endWith } from '../../src/session/messages.ts';
import { loadUws, type UwsResponse } from '../../src/http/uws.ts';

const port = Number(process.argv[2]);
assert(Number.isInteger(port), 'usage: broadcaster-server PORT');

const readersByPath = new Map<string, Set<UwsResponse>>();

function readersOf(path: string): Set<UwsResponse> {
  let readers = readersByPath.get(path);
  if (readers === undefined) readersByPath.set(path, (readers = new Set()));
  return readers;
}

function control(offset: number): string {
  const next = String(offset).padStart(20, '0');
  return `event: control\ndata:{"streamNextOffset":"${next}","streamCursor":"${next}","upToDate":true}\n\n`;
}

/** Readers in sessions follow one stream at a time, so they share a topic. */
const TOPIC = 'events';
const SUBSCRIPTION = 1;
let offset = 0;

function sessionEvent(body: Uint8Array | undefined): Uint8Array {
  const fields = new FieldWriter(new MessageWriter());
  beginEvent(fields, SUBSCRIPTION, offset);
  fields.writeHeader('stream-up-to-date', 'true');
  endWith(fields, body);
  return fields.out.written;
}

const app = loadUws().App();
app
  .ws('/*', {
    message: (socket) => {
      socket.subscribe(TOPIC);
      socket.send(sessionEvent(undefined), true);
    },
  })
  .put('/*', (res) => {
    res.writeStatus('201 Created').endWithoutBody();
  })
  .get('/*', (res, req) => {
    const readers = readersOf(req.getUrl());
    res.onAborted(() => readers.delete(res));
    readers.add(res);
    res.cork(() => {
      res.writeHeader('content-type', 'text/event-stream').writeHeader('cache-control', 'no-cache').write(control(0));
    });
  })
  .post('/*', (res, req) => {
    const readers = readersOf(req.getUrl());
    let body = Buffer.alloc(0);
    res.onAborted(() => (body = Buffer.alloc(0)));
    res.onData((chunk, isLast) => {
      body = Buffer.concat([body, Buffer.from(chunk)]);
      if (!isLast) return;
      const frame = Buffer.concat([
        Buffer.from('event: data\ndata:'),
        body,
        Buffer.from(`\n\n${control(body.length)}`),
      ]);
      offset += body.length;
      app.publish(TOPIC, sessionEvent(body), true);
      for (const reader of readers) reader.cork(() => reader.write(frame));
      res.cork(() => res.writeStatus('204 No Content').endWithoutBody());
    });
  })
  .listen('127.0.0.1', port, (socket) => assert(socket, `cannot listen on ${port}`));
