/**
 * Collects the messages of one turn per link until they become frames. They are encoded once, into a buffer of the
 * exact size. Appends have their own frames, so that everything else can overtake them.
 */
import type { Message } from '../raft/types.ts';
import { LARGE_PAYLOAD_BYTES_MAX } from './codec/frame.ts';
import { encodeRaftFrame, type RaftItem, raftItemBytes } from './codec/raft-frame.ts';
import { countSent, type PeerCounters } from './counters.ts';
import type { PeerLink } from './link.ts';
import { PRIORITY_CONTROL, PRIORITY_ENTRIES, type Priority } from './send-queue.ts';

interface Box {
  readonly priority: Priority;
  items: RaftItem[];
  bytes: number;
}

export class Outbox {
  readonly #frameBytes: number;
  readonly #counters: PeerCounters;
  readonly #boxes = new Map<PeerLink, { readonly control: Box; readonly entries: Box }>();

  /** A frame is closed when it has reached `frameBytes`. */
  constructor(frameBytes: number, counters: PeerCounters) {
    this.#frameBytes = frameBytes;
    this.#counters = counters;
  }

  add(link: PeerLink, group: number, wanted: Message): void {
    const message = link.repairs ? wanted : withoutWish(wanted);
    let boxes = this.#boxes.get(link);
    if (boxes === undefined) {
      boxes = { control: newBox(PRIORITY_CONTROL), entries: newBox(PRIORITY_ENTRIES) };
      this.#boxes.set(link, boxes);
    }
    // An append without entries still depends on those before it.
    const box = message.type === 'append' ? boxes.entries : boxes.control;
    const bytes = raftItemBytes(message);
    if (bytes > LARGE_PAYLOAD_BYTES_MAX) {
      // Neither this version nor an earlier one can write such an entry.
      this.#counters.peer_dropped_messages++;
      return;
    }
    // A large message is not joined with others: frames stay near the bound unless a single message is larger.
    if (box.items.length > 0 && box.bytes + bytes > this.#frameBytes) this.#seal(link, box);
    box.items.push({ group, message });
    box.bytes += bytes;
    countSent(this.#counters, message, bytes);
  }

  /** Queues what was added. */
  seal(): void {
    for (const [link, { control, entries }] of this.#boxes) {
      if (control.items.length > 0) this.#seal(link, control);
      if (entries.items.length > 0) this.#seal(link, entries);
    }
  }

  /** The link is gone; returns the number of dropped messages. */
  forget(link: PeerLink): number {
    const boxes = this.#boxes.get(link);
    this.#boxes.delete(link);
    return boxes === undefined ? 0 : boxes.control.items.length + boxes.entries.items.length;
  }

  #seal(link: PeerLink, box: Box): void {
    const { items, bytes } = box;
    box.items = [];
    box.bytes = 0;
    const counters = this.#counters;
    counters.raft_grpc_append_stream_request_frames++;
    if (items.length > 1) counters.raft_grpc_append_stream_batch_frames++;
    if (items.length > counters.raft_grpc_append_stream_batch_items_max) {
      counters.raft_grpc_append_stream_batch_items_max = items.length;
    }
    link.send(encodeRaftFrame(items, bytes), box.priority);
  }
}

function newBox(priority: Priority): Box {
  return { priority, items: [], bytes: 0 };
}

/** As peers know it that repair no state. */
function withoutWish(message: Message): Message {
  return 'wantsState' in message && message.wantsState ? { ...message, wantsState: false } : message;
}
