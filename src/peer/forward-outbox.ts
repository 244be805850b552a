/**
 * Collects the forwarded requests and answers of one turn per link until they become frames. With hundreds of clients a
 * turn forwards dozens, and a separate frame for each cost more than everything else on their path.
 */
import { planted } from '../base/planted.ts';
import type { Forward, ForwardReply } from './codec/forward.ts';
import { encodeForwardReplies, encodeForwards, forwardBytes } from './codec/forward.ts';
import type { PeerLink } from './link.ts';
import { PIECE_BYTES_MAX } from './send-queue.ts';

/** A larger frame is closed, so that the peer can begin before all of a turn is there, and heartbeats get between. */
const FRAME_BYTES = 64 * 1024;

interface Box {
  forwards: Forward[];
  forwardBytes: number;
  /** Large requests for a peer that takes them in pieces. */
  large: Forward[];
  largeBytes: number;
  replies: ForwardReply[];
  replyBytes: number;
  /** The requester's run that the replies are for. */
  boot: number;
}

export class ForwardOutbox {
  readonly #boxes = new Map<PeerLink, Box>();
  /** Called for requests that found no space in the end. */
  readonly #unsent: (correlation: number) => void;

  constructor(unsent: (correlation: number) => void) {
    this.#unsent = unsent;
  }

  /** `bytes` must not change before the next seal(), those of a large request until it is answered. */
  forward(link: PeerLink, forward: Forward): void {
    const box = this.#box(link);
    const size = forwardBytes(forward.bytes);
    if (size > PIECE_BYTES_MAX && link.takesRequestPieces && !planted('requests-wait-in-line')) {
      box.large.push(forward);
      box.largeBytes += size;
      return;
    }
    if (box.forwardBytes > 0 && box.forwardBytes + size > FRAME_BYTES) this.#sealForwards(link, box);
    box.forwards.push(forward);
    box.forwardBytes += size;
  }

  /** `bytes` must not change before the next seal(). */
  reply(link: PeerLink, boot: number, reply: ForwardReply): void {
    const box = this.#box(link);
    const size = reply.bytes.length;
    const full = box.replyBytes + size > FRAME_BYTES || box.boot !== boot;
    if (box.replies.length > 0 && full) this.#sealReplies(link, box);
    box.boot = boot;
    box.replies.push(reply);
    box.replyBytes += size;
  }

  /** Bytes that seal() would queue. */
  waitingBytes(link: PeerLink): number {
    const box = this.#boxes.get(link);
    return box === undefined ? 0 : box.forwardBytes + box.largeBytes + box.replyBytes;
  }

  /** Queues what was added. */
  seal(): void {
    for (const [link, box] of this.#boxes) {
      if (box.forwards.length > 0) this.#sealForwards(link, box);
      if (box.large.length > 0) this.#sealLarge(link, box);
      if (box.replies.length > 0) this.#sealReplies(link, box);
    }
  }

  /** The link is gone. Its pending requests are reported elsewhere. Returns how many replies were dropped. */
  forget(link: PeerLink): number {
    const count = this.#boxes.get(link)?.replies.length ?? 0;
    this.#boxes.delete(link);
    return count;
  }

  #box(link: PeerLink): Box {
    let box = this.#boxes.get(link);
    if (box === undefined) {
      box = { forwards: [], forwardBytes: 0, large: [], largeBytes: 0, replies: [], replyBytes: 0, boot: 0 };
      this.#boxes.set(link, box);
    }
    return box;
  }

  #sealForwards(link: PeerLink, box: Box): void {
    const { forwards } = box;
    box.forwards = [];
    box.forwardBytes = 0;
    if (link.send(encodeForwards(forwards))) return;
    for (const { correlation } of forwards) this.#unsent(correlation);
  }

  #sealLarge(link: PeerLink, box: Box): void {
    const { large } = box;
    box.large = [];
    box.largeBytes = 0;
    for (const request of large) if (!link.sendLarge(request)) this.#unsent(request.correlation);
  }

  #sealReplies(link: PeerLink, box: Box): void {
    const { replies, boot } = box;
    box.replies = [];
    box.replyBytes = 0;
    // Without space the frame is counted as dropped; the requesters time out.
    link.send(encodeForwardReplies(boot, replies));
  }
}
