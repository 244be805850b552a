/** Operators' calls about one Raft group, and whether a shard may lead. */
import { CALL_RESULT } from './call-result.ts';
import { type ValuesOf, choiceIn, numberIn, queryFields } from './frame-fields.ts';
import { MODE, VALUE } from './generic-fields.ts';
import { NO_RESULT, query } from './operation.ts';
import { type RequestCodec, nameStream } from './request.ts';

/** By number, from 1. */
const CALLS = ['', 'snapshot', 'purge', 'learner', 'transfer', 'membership', 'allow-revert', 'forget-learner'] as const;

export type AdminRequest =
  | { readonly call: 'snapshot' }
  /** Undefined: the index of the last snapshot. */
  | { readonly call: 'purge'; readonly upTo: number | undefined }
  /** The address is empty when the configuration file has it. */
  | { readonly call: 'learner'; readonly node: number; readonly address: string }
  | { readonly call: 'transfer' | 'allow-revert' | 'forget-learner'; readonly node: number }
  /** Ascending, each once. */
  | { readonly call: 'membership'; readonly voters: readonly number[] };

export type AdminCall = AdminRequest['call'];

/** Stands for an index that is not given. */
const NO_INDEX = -1;

const ADMIN_REQUEST: RequestCodec<AdminRequest> = {
  write(request, asked) {
    request[MODE] = CALLS.indexOf(asked.call);
    request[VALUE] = 'node' in asked ? asked.node : asked.call === 'purge' ? (asked.upTo ?? NO_INDEX) : NO_INDEX;
    const text = asked.call === 'learner' ? asked.address : asked.call === 'membership' ? asked.voters.join(',') : '';
    nameStream(request, { bucket: text, stream: '' });
  },
  read(query) {
    const call = CALLS[query[MODE]];
    const value = query[VALUE];
    switch (call) {
      case 'purge':
        return { call, upTo: value === NO_INDEX ? undefined : value };
      case 'learner':
        return { call, node: value, address: query.keyText() };
      case 'membership':
        return { call, voters: query.keyText().split(',').map(Number) };
      case 'transfer':
      case 'allow-revert':
      case 'forget-learner':
        return { call, node: value };
      default:
        return { call: 'snapshot' };
    }
  },
};

export const admin = query({
  number: 40,
  scope: 'control',
  needsLeaders: false,
  request: ADMIN_REQUEST,
  result: CALL_RESULT,
});

/** How a node campaigns: as usual, never, or later than the others. By number. */
const PRIORITIES = ['normal', 'none', 'low'] as const;

const SHED_PARAMETERS = {
  priority: choiceIn(MODE, PRIORITIES),
  /** Why, as bits to be shown (placement/state/shed.ts). */
  reasons: numberIn(VALUE),
};

export type ShedRequest = ValuesOf<typeof SHED_PARAMETERS>;

/** Whether this node may lead, for all groups of the shard. */
export const shed = query({
  number: 41,
  scope: 'control',
  needsLeaders: false,
  request: queryFields(SHED_PARAMETERS),
  result: NO_RESULT,
});
