import { decodeConfiguration } from '../../../src/raft/configuration.ts';
import { ENTRY_CONFIG, ENTRY_EMPTY } from '../../../src/raft/types.ts';
import type { Configuration, Entry, HardState, Message } from '../../../src/raft/types.ts';

const text = new TextDecoder();

/** index/term, and what is in it. */
export function formatEntry(entry: Entry): string {
  const place = `${entry.index}/${entry.term}`;
  if (entry.kind === ENTRY_EMPTY) return place;
  return `${place}:${entry.kind === ENTRY_CONFIG ? formatConfiguration(decodeConfiguration(entry.data)) : text.decode(entry.data)}`;
}

export function formatConfiguration(configuration: Configuration): string {
  const outgoing = configuration.votersOutgoing.length > 0 ? `&(${configuration.votersOutgoing.join(',')})` : '';
  const learners = configuration.learners.length > 0 ? ` learners(${configuration.learners.join(',')})` : '';
  return `(${configuration.voters.join(',')})${outgoing}${learners}`;
}

export function formatHardState(state: HardState): string {
  return `term=${state.term} vote=${state.vote}`;
}

export function formatMessage(message: Message): string {
  return `${message.from}->${message.to} ${formatBody(message)} term=${message.term}`;
}

function formatBody(message: Message): string {
  switch (message.type) {
    case 'vote':
      return `${message.pre ? 'pre-vote' : 'vote'} last=${message.lastIndex}/${message.lastTerm}${message.force ? ' forced' : ''}`;
    case 'vote-response':
      return `${message.pre ? 'pre-vote' : 'vote'}-${message.granted ? 'granted' : 'refused'}`;
    case 'append': {
      const entries = message.entries.map(formatEntry).join(' ');
      return `append after ${message.prevIndex}/${message.prevTerm} [${entries}] commit=${message.commit}${formatNote(message)}`;
    }
    case 'append-response':
      if (!message.reject) return `append-ok ${message.index}${formatLost(message.lost)}`;
      return `append-refused at ${message.index} hint=${message.hintIndex}/${message.hintTerm}${formatLost(message.lost)}`;
    case 'heartbeat':
      return `${message.round === 0 ? 'commit' : 'heartbeat'} commit=${message.commit}${formatNote(message)}`;
    case 'heartbeat-response':
      return `heartbeat-ok${formatLost(message.lost)}`;
    case 'snapshot':
      return `snapshot ${message.snapshot.index}/${message.snapshot.term}${formatNote(message)}`;
    case 'read-index':
      return `read-index ${message.context}`;
    case 'read-index-response':
      return `read-index-answer ${message.context}@${message.index}`;
    case 'timeout-now':
      return 'timeout-now';
  }
}

function formatNote(message: { allowedBoot: number; restored: boolean }): string {
  if (message.allowedBoot === 0) return '';
  return message.restored ? ' restored' : ' revert-allowed';
}

function formatLost(lost: number): string {
  return ['', ' lost-log', ' lost-log(allowed)'][lost]!;
}
