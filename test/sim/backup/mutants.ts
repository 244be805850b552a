/** Bugs planted in exports and imports (mutants.ts). */
import type { Mutant } from '../mutants.ts';

export const BACKUP_MUTANTS: Readonly<Record<string, Mutant>> = {
  // The answer was lost, and the piece comes again.
  'import-piece-taken-twice': {
    file: 'src/backup/state/import',
    from: 'if (piece.seq < mark.pieces)',
    to: 'if (false)',
  },
  'import-piece-of-anybody': {
    file: 'src/backup/state/import',
    from: "mark?.phase !== 'rows' || mark.token !== piece.token || piece.seq > mark.pieces",
    to: "mark?.phase !== 'rows' || piece.seq > mark.pieces",
  },
  'import-end-unchecked': {
    file: 'src/backup/state/import',
    from: "mark?.phase === 'rows' && mark.token === end.token && mark.pieces === end.pieces && mark.rows === end.rows",
    to: "mark?.phase === 'rows'",
  },
  'import-counts-no-hot-bytes': {
    file: 'src/backup/state/import',
    from: 'state.hotBytes = end.hotBytes;',
    to: '',
  },
  'import-numbers-from-one': {
    file: 'src/backup/state/import',
    from: 'state.nextIncarnation = end.nextIncarnation;',
    to: '',
  },
  'import-goes-on-counting': {
    file: 'src/backup/state/import',
    from: 'state.mutations = 0;',
    to: '',
  },
  // A node that was asked for a bucket before knows that it is not there.
  'import-keeps-old-buckets': {
    file: 'src/backup/state/import',
    from: 'state.buckets.forget();\n    state.forks',
    to: 'state.forks',
  },
  'import-takes-over-at-once': {
    file: 'src/backup/state/import',
    from: "return refuse(reply, 'IMPORT_RUNNING');",
    to: ';',
  },
  'import-undone-by-its-own-begin': {
    file: 'src/backup/state/import',
    from: 'if (mark.token !== token) {',
    to: "if (mark.pieces > 0) state.markImport({ ...mark, phase: 'undoing' }); if (mark.token !== token) {",
  },
  'import-undone-but-for-indexes': {
    file: 'src/backup/state/import',
    from: 'for (const tag of IMPORTED_TAGS) {',
    to: 'for (const tag of IMPORTED_TAGS.slice(0, -4)) {',
  },
  'import-begins-again-late': {
    file: 'src/backup/state/import',
    from: "mark?.phase === 'undone' && mark.token === token",
    to: 'false',
  },
  'import-mark-not-in-snapshots': {
    file: 'src/store/shard-store',
    from: 'openRanges([[prefixKey(prefix), prefixKey(prefix + 1)]])',
    to: 'openRanges([[prefixKey(prefix), [...prefixKey(prefix), 0x69]], [[...prefixKey(prefix), 0x6a], prefixKey(prefix + 1)]].map((range) => range.map((key) => Uint8Array.from(key))))',
  },
  'reads-during-import': {
    file: 'src/group/group',
    from: 'if (isImporting(this.state)) {',
    to: 'if (false) {',
  },
  'writes-during-import': {
    file: 'src/stream/apply',
    from: 'if (isImporting(state) &&',
    to: 'if (false &&',
  },
  'export-of-an-import': {
    file: 'src/shard/exports',
    from: 'if (isImporting(group.state))',
    to: 'if (false)',
  },
  'export-without-checkpoint': {
    file: 'src/shard/exports',
    from: 'if (!this.#host.checkpoint(group))',
    to: 'if (false)',
  },
  'export-loses-producers': {
    file: 'src/backup/state/canonical',
    from: 'are in no backup`);\n                return true;',
    to: 'are in no backup`);\n                return false;',
  },
  'export-loses-the-floor': {
    file: 'src/backup/state/canonical',
    from: '        });\n        this.#sink(key, value);',
    to: '        });\n        const lost = value.slice(); lost.fill(0, 40, 56); this.#sink(key, lost);',
  },
  'import-lists-no-lifetimes': {
    file: 'src/backup/state/derive',
    from: 'if (head.indexedDeadlineMs >= 0)',
    to: 'if (false)',
  },
  'import-lists-no-hot-streams': {
    file: 'src/backup/state/derive',
    from: 'if (head.hotSinceMs >= 0)',
    to: 'if (false)',
  },
};

/** No bugs: the same with other bounds, which a simulation is too small for. */
export const BACKUP_VARIANTS: Readonly<Record<string, Mutant>> = {
  'import-undone-in-many-steps': {
    file: 'src/backup/state/import',
    from: 'const UNDO_ROWS = 4096;',
    to: 'const UNDO_ROWS = 3;',
  },
};
