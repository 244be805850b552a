// The parts of the benchmark that could lie: the reader that claims nothing was lost, the framing, the statistics.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pack } from 'msgpackr';
import { httpFraming, respFraming, statusOf } from '../../bench/load/exchange.ts';
import { encodeEvent } from '../../bench/load/fan-out-event.ts';
import { GrpcPut, putMessage } from '../../bench/load/grpc-put.ts';
import { NatsPublish } from '../../bench/load/nats-publish.ts';
import { SessionAppend } from '../../bench/load/session-append.ts';
import { SessionReader } from '../../bench/load/session-reader.ts';
import type { SlotProtocol } from '../../bench/load/slots.ts';
import { SseReader } from '../../bench/load/sse-reader.ts';
import { check } from '../../bench/report.ts';
import { median, medianRatio, percentile, summarize, type LoadResult } from '../../bench/stats.ts';

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n';

function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`;
}

function eventFrame(sequence: number): string {
  const payload = encodeEvent(sequence, 1000 + sequence, 64).toString('latin1');
  return `event: data\ndata:${payload}\n\nevent: control\ndata:{"upToDate":true}\n\n`;
}

function readInPieces(stream: Buffer, pieceBytes: number): { reader: SseReader; seen: number[] } {
  const seen: number[] = [];
  const reader = new SseReader(
    '',
    () => {},
    (sequence, sentUs) => {
      assert.equal(sentUs, 1000 + sequence);
      seen.push(sequence);
    },
  );
  for (let at = 0; at < stream.length; at += pieceBytes) reader.feed(stream.subarray(at, at + pieceBytes));
  return { reader, seen };
}

test('a reader sees every event once, wherever TCP and chunk borders fall', () => {
  const frames = [0, 1, 2, 3].map(eventFrame);
  const joined = frames.join('');
  const halves = [joined.slice(0, 30), joined.slice(30, 100), joined.slice(100)];
  for (const chunks of [frames, halves, [joined], joined.split('')]) {
    const stream = Buffer.from(HEAD + chunks.map(chunk).join(''), 'latin1');
    for (let pieceBytes = 1; pieceBytes <= stream.length; pieceBytes += pieceBytes < 70 ? 1 : 61) {
      const { reader, seen } = readInPieces(stream, pieceBytes);
      assert.deepEqual(seen, [0, 1, 2, 3], `pieces of ${pieceBytes} bytes`);
      assert.deepEqual([reader.order.gaps, reader.order.repeats, reader.failure], [0, 0, '']);
    }
  }
});

test('a reader counts a lost event, a repeated one and a refusal', () => {
  const stream = Buffer.from(HEAD + [0, 1, 3, 3, 4].map(eventFrame).map(chunk).join(''), 'latin1');
  const { reader } = readInPieces(stream, stream.length);
  assert.deepEqual([reader.order.gaps, reader.order.repeats, reader.order.nextSequence], [1, 1, 5]);
  const refused = readInPieces(Buffer.from('HTTP/1.1 404 Not Found\r\n\r\n'), 7);
  assert.equal(refused.reader.failure, 'HTTP/1.1 404 Not Found');
});

test('answers are complete at their last byte and not before', () => {
  const answers = [
    'HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('hello')}0\r\n\r\n`,
  ];
  for (const answer of answers) {
    const whole = Buffer.from(answer);
    for (let size = 1; size < whole.length; size++) {
      const framed = httpFraming(whole.subarray(0, size));
      assert(framed === 0 || framed === whole.length, `${answer}: ${framed} after ${size} bytes`);
    }
    assert.equal(httpFraming(whole), whole.length);
  }
  assert.equal(statusOf(Buffer.from(answers[0]!)), 204);
  assert.equal(respFraming(Buffer.from('$3\r\n1-1\r')), 0);
  assert.equal(respFraming(Buffer.from('$3\r\n1-1\r\n')), 9);
  assert.equal(respFraming(Buffer.from('-ERR no\r\n')), 9);
});

test('percentiles are by nearest rank, medians by the middle, ratios within a round', () => {
  const hundred = Float64Array.from({ length: 100 }, (_, index) => 100 - index);
  assert.deepEqual(summarize(hundred), { p50Ms: 50, p99Ms: 99, p999Ms: 100, maxMs: 100 });
  assert.ok(Number.isNaN(percentile([], 50)));
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 2, 3]), 2.5);
  const rounds = (rates: number[]): LoadResult[] => rates.map((ratePerSecond) => ({ ratePerSecond }) as LoadResult);
  // The machine halves its speed in round two: both sides do, and the ratio stays what it is.
  assert.equal(
    medianRatio(rounds([20, 10, 20]), rounds([10, 5, 10]), (r) => r.ratePerSecond),
    2,
  );
});

const SLOTS = { index: 0, port: 1, firstSlot: 0, slots: 3, payloadBytes: 4 };

/** Feeds `input` in pieces of every size; each time the answers must be the same. */
function answersInPieces(make: () => SlotProtocol, input: Buffer): [slot: number, isGood: boolean][] {
  let first: [number, boolean][] | undefined;
  for (let pieceBytes = 1; pieceBytes <= input.length; pieceBytes++) {
    const protocol = make();
    for (let slot = 0; slot < SLOTS.slots; slot++) protocol.append(slot);
    const answers: [number, boolean][] = [];
    for (let at = 0; at < input.length; at += pieceBytes)
      protocol.receive(input.subarray(at, at + pieceBytes), (slot, isGood) => answers.push([slot, isGood]));
    first ??= answers;
    assert.deepEqual(answers, first, `pieces of ${pieceBytes} bytes`);
  }
  return first ?? [];
}

test('a put is answered by a message and trailers; trailers alone and a reset are refusals', () => {
  const frame = (type: number, flags: number, stream: number, body: string): Buffer =>
    Buffer.concat([Buffer.from([0, 0, body.length, type, flags, 0, 0, 0, stream]), Buffer.from(body)]);
  const settings = frame(4, 0, 0, '');
  const put = [frame(1, 4, 3, 'head'), frame(0, 0, 3, 'body'), frame(1, 5, 3, 'status')];
  const input = Buffer.concat([settings, ...put, frame(1, 5, 1, 'status'), frame(3, 0, 5, 'code')]);
  const answers = answersInPieces(() => new GrpcPut(SLOTS), input);
  assert.deepEqual(answers, [
    [1, true],
    [0, false],
    [2, false],
  ]);
  const protocol = new GrpcPut(SLOTS);
  assert.deepEqual(
    protocol.receive(settings, () => {}),
    frame(4, 1, 0, ''),
    'settings are acknowledged',
  );
  assert.equal(putMessage('key', Buffer.from('value')).toString('hex'), '000000000c0a036b6579120576616c7565');
});

test('a publish is acknowledged with a sequence; errors and no responders are refusals', () => {
  const message = (slot: number, body: string): string => `MSG _INBOX.c0.${slot} 1 ${body.length}\r\n${body}\r\n`;
  const status = 'NATS/1.0 503\r\n\r\n';
  const text = [
    'INFO {}\r\nPONG\r\n',
    message(2, '{"stream":"s","seq":7}'),
    message(0, '{"error":{"code":503},"stream":"s","seq":0}'),
    `HMSG _INBOX.c0.1 1 ${status.length} ${status.length}\r\n${status}\r\n`,
  ].join('');
  const answers = answersInPieces(() => new NatsPublish(SLOTS), Buffer.from(text));
  assert.deepEqual(answers, [
    [2, true],
    [0, false],
    [1, false],
  ]);
});

const SWITCHED = Buffer.from('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n');

function sessionMessage(...values: readonly unknown[]): Buffer {
  const payload = Buffer.concat(values.map((value) => Buffer.from(pack(value))));
  const head = payload.length < 126 ? [0x82, payload.length] : [0x82, 126, payload.length >> 8, payload.length & 255];
  return Buffer.concat([Buffer.from(head), payload]);
}

test('a subscriber asks once, answers pings, and sees every event once, wherever borders fall', () => {
  const event = (sequence: number): unknown => [67, 1, sequence, {}, encodeEvent(sequence, 1000 + sequence, 100)];
  const messages = [sessionMessage([64, {}]), sessionMessage([67, 1, 0, {}, null]), Buffer.from([0x89, 0])];
  const input = Buffer.concat([SWITCHED, ...messages, sessionMessage(event(0), event(1)), sessionMessage(event(3))]);
  for (let pieceBytes = 1; pieceBytes <= input.length; pieceBytes++) {
    const said: string[] = [];
    const reader = new SessionReader({
      subscribe: Buffer.from('subscribe'),
      send: (bytes) => said.push(bytes.length === 6 ? 'pong' : bytes.toString()),
      opened: () => said.push('opened'),
      onEvent: (sequence, sentUs) => said.push(`${sequence}@${sentUs}`),
    });
    const piece = Buffer.alloc(pieceBytes);
    for (let at = 0; at < input.length; at += pieceBytes) {
      // Its memory is used again, as that of a socket is.
      reader.feed(piece.subarray(0, input.copy(piece, 0, at, at + pieceBytes)));
    }
    const expected = ['subscribe', 'opened', 'pong', '0@1000', '1@1001', '3@1003'];
    assert.deepEqual(said.toSorted(), expected.toSorted(), `pieces of ${pieceBytes} bytes`);
    assert.deepEqual([reader.order.gaps, reader.order.repeats, reader.failure], [1, 0, '']);
  }
});

test('answers of a session come several in a message, and HELLO makes it ready', () => {
  const ping = Buffer.from([0x89, 0]);
  const done = [65, 2, 9, {}, null];
  const refused = [66, 0, 404, 'STREAM_NOT_FOUND', 'x'.repeat(200), {}];
  const input = Buffer.concat([SWITCHED, sessionMessage([64, { requests: 1 }]), ping, sessionMessage(done, refused)]);
  assert.deepEqual(
    answersInPieces(() => new SessionAppend(SLOTS), input),
    [
      [2, true],
      [0, false],
    ],
  );
  const session = new SessionAppend(SLOTS);
  assert.equal(session.isReady, false);
  session.receive(input, () => {});
  assert.equal(session.isReady, true);
  assert.throws(
    () => new SessionAppend(SLOTS).receive(Buffer.from('HTTP/1.1 503 Busy\r\n\r\n'), () => {}),
    /HTTP\/1\.1 503/,
  );
  const one = session.append(1);
  assert.deepEqual(session.join([one, one]).subarray(-2 * one.length), Buffer.concat([one, one]));
});

test('a goal is not reached by a ratio to nothing', () => {
  assert.equal(check('rate', 5, 'x', { atLeast: 3 }).pass, true);
  assert.equal(check('rate', 2, 'x', { atLeast: 3 }).pass, false);
  assert.equal(check('rate', 1 / 0, 'x', { atLeast: 3 }).pass, false);
  assert.equal(check('share', Number.NaN, '', { atMost: 3 }).pass, false);
});
