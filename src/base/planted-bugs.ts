/**
 * Bugs that the simulator can switch on, to prove that its checks would find bugs of this kind. `planted` marks the
 * place in the code of each, and a test keeps names, places and the seeds that find them in step. What each one does
 * wrong:
 */
export const PLANTED_BUGS = {
  // Consensus.
  'any-log-may-lead': "Voters do not compare the candidate's log with their own.",
  'sent-before-commit': 'What may leave only after the commit leaves before it.',
  'sent-counts-as-acknowledged': 'A leader believes that all it sent has arrived.',
  'one-ack-counts-for-two': "A follower's acknowledgement also counts for its neighbors.",
  'old-term-committed-by-counting':
    'A new leader counts acknowledgements of entries of earlier terms (thesis 3.6.2, figure 8).',
  'mark-forgotten': 'A node that is marked for maintenance acknowledges that, and campaigns as before.',
  'stale-answers-count': 'Any answer keeps a leader in office, however old the message that it answers.',
  'stall-is-endured': 'A leader that commits nothing stays in office while followers answer.',

  // Links between nodes.
  'urgent-waits-in-line': 'Heartbeats and answers wait behind entries.',
  'requests-wait-in-line': 'Forwarded requests wait behind entries and large requests.',
  'latency-taken-for-a-queue':
    'Who answers late counts as behind a thin link, although less under way makes no difference.',
  'window-never-shrinks': 'What may be under way to a peer only grows, however slow the link is.',

  // The log and state on disk.
  'log-not-synced': 'A record of the log counts as durable although it was not synced.',
  'checkpoint-names-unsynced': 'A checkpoint names a record of the log whose sync has not ended.',
  'log-checksum-ignored': 'A record of the log whose checksum is wrong counts as whole.',
  'log-sequence-ignored':
    'What an earlier use of a segment left behind the newest record counts as the records after it.',
  'rot-taken-for-torn': 'A last record that has changed counts as one whose write was cut off.',
  'torn-taken-for-rot': 'A last record whose write was cut off counts as one that has changed.',
  'later-record-ignored': 'A record that is not whole ends the log, whatever was written behind it.',
  'covered-record-forgotten': 'A log may end before a record that a checkpoint names.',
  'unneeded-record-missed': 'A record that no checkpoint needs must be there.',
  'log-freed-early': 'A checkpoint says that no record is needed, whatever it covers, and segments are used again.',
  'changes-unbounded': 'Entries are applied however much waits for a checkpoint.',
  'replay-without-checkpoints': 'All committed entries of the log are applied at once.',
  'checkpoint-ahead-of-log': 'A checkpoint names one record more than the log has.',
  'vote-not-persisted': 'Term and vote are kept in memory only.',
  'rows-written-over': 'The memory of rows that no checkpoint has on disk takes the rows of the next one.',
  'checkpoint-not-written': 'A checkpoint is reported and not written, and the log behind it is compacted.',
  'conflict-not-written': 'Entries that replace others are not written.',
  'applied-twice': 'The applied index on disk is one too low: after a restart the last entry is applied again.',
  'group-not-lost': 'A group that a start cannot open, or whose vote is not known, counts as whole.',
  'torn-group-opened': 'A group of whose rows a page could not be read is opened with those that are left.',
  'row-checksum-ignored': 'A row of the state that the disk changed counts as what was written.',
  'repair-not-sent': 'A leader sends its state to no node whose disk changed rows.',
  'repair-skips-entries': 'After a repair applying goes on where it was, and not behind the state that was installed.',
  'repair-cuts-log': 'A state that replaces a damaged one takes the log with it.',
  'entry-applied-otherwise': 'One of three replicas applies some entries as if they were empty.',
  'entry-read-back-wrong': 'An entry that is read back from disk begins with its own head.',

  // A node that lost its disk.
  'lost-marker-forgotten': 'A node with an empty disk under a used id does not know that it lost something.',
  'directories-not-remembered':
    'Nodes do not remember the directories of others, so a wiped node votes when nothing else tells it.',

  // Group snapshots.
  'snapshot-with-wrong-index': 'The index of a group snapshot is one too high.',

  // Groups: what is proposed, and how requests are answered.
  'entry-unbounded': 'All commands that arrive within a turn become one entry, however large.',
  'pieces-not-bounded': 'A turn takes all pieces of the large commands that wait.',
  'missing-in-the-end': "A read that timed out reports a missing stream, ignoring the leader's answer.",
  'missing-not-confirmed': 'A node says that a stream is missing without asking the leader.',
  'reads-not-held': 'A node that starts again answers reads from its last checkpoint.',
  'clock-in-apply': "The state machine reads the node's clock instead of the leader's.",
  'reply-before-apply': 'A follower answers as soon as the leader has, before it has applied the write itself.',
  'forwarded-twice': 'A forwarded write is sent twice.',
  'sent-back-goes-last': 'A write that a former leader sends back goes behind those that came after it.',
  'broken-link-means-not-done': 'A link that broke is taken for a refusal, so the write is sent again.',
  'unknown-means-not-done': 'Clients are told that nothing was done when that is not known.',
  'confirmed-but-not-applied':
    'A confirmed read is answered before this node has applied what the leader had committed.',
  'pressure-for-ever': 'Once there were too many hot bytes, appends are refused even after these were flushed.',

  // Streams.
  'rows-stay': 'The deletion of garbage takes one row of a removed stream and reports that it took all.',
  'snapshots-stay': 'The rows of the application snapshot of a removed stream stay behind.',
  'expected-offset-ignored': 'An append that expects an offset is taken at any tail.',
  'quota-lets-one-more-in': 'An append is refused only when the bucket was beyond its quota before it.',
  'quota-of-streams-forgotten': 'A bucket may hold one stream more than its quota allows.',
  'quota-not-stored': 'A new quota is not part of the next checkpoint.',

  // Large commands in pieces.
  'pieces-mixed-up': 'The last piece of a large command is put a byte in front of its place.',
  'partial-not-stored': 'A checkpoint that falls between the pieces of a large command leaves them out.',
  'partial-outlives-its-term':
    'A leader that returns goes on with a large command where it left off, and nodes let it.',

  // The cold store.
  'frontier-moves-back': 'After a part of a stream was flushed, its rows are said to begin where the stream begins.',
  'flushed-bytes-still-counted': 'What a flush takes from the middle of a row still counts as hot.',
  'split-shifts-bytes': 'A row that is split at the frontier keeps one byte too many in front.',
  'split-loses-the-rest': 'A row that is split at the frontier loses the part that was not flushed.',
  'wrong-incarnation-accepted': 'A flush of a removed stream is accepted for the stream that now has its name.',
  'flush-anywhere': 'A flush is accepted although it begins in front of the frontier.',
  'deleted-on-ambiguous-commit':
    'A flusher that lost its leadership deletes its upload although the publication may commit.',
  'sweep-takes-uploads': 'The sweep for orphans takes objects that are being uploaded.',
  'sweep-takes-merges': 'The sweep for orphans takes the object of a merge whose publication is under way.',
  'orphans-not-found': 'The sweep for orphans finds none.',
  'foreign-objects-taken': 'A foreign object in the store counts as an orphan of ours.',
  'marks-known-objects': 'A listed orphan is deleted although it became known meanwhile.',
  'merge-keeps-references': 'A merge does not release the object of the first chunk that it replaced.',
  'pack-counted-short': 'An object of several slices is counted with one reference too few.',
  'release-counts-double': 'A released chunk gives back two references to its object.',
  'forgotten-before-removed': 'An object whose deletion failed counts as deleted.',
  'gc-without-removal': 'The garbage collector does not delete the first object of each batch.',
  'retention-takes-one-more': 'Retention also releases the chunk that holds the start offset.',
  'start-offset-passes-rows': 'The start offset moves past the frontier, and the frontier stays behind.',
  'plan-skips-a-chunk': 'A cold read begins one chunk too late.',

  // Forks.
  'fork-cut-short': 'A fork inside a message inherits one byte too few.',
  'half-made-fork-shown': 'A fork is visible while its content is still being copied.',
  'fork-never-given-up': 'A fork whose maker died is never given up.',
  'name-free-while-forks-live': 'The name of a removed stream is free although forks of it live.',
  'name-kept-without-forks': 'The name of a removed stream stays taken after its last fork is gone.',
  'living-fork-taken-for-gone': 'A fork that lives is reported as gone, and its source forgets the pin.',

  // Backups: exports.
  'export-of-an-import': 'A group that is being imported can be exported.',
  'export-without-checkpoint': 'An export does not write a checkpoint first.',
  'export-loses-producers': 'An export leaves producers out.',
  'export-loses-start-offset': 'An export says that each stream begins at its first byte, whatever was trimmed.',

  // Backups: imports.
  'import-piece-taken-twice': 'A piece whose answer was lost is counted again when it is repeated.',
  'import-piece-of-another': 'Pieces of another attempt are accepted.',
  'import-end-unchecked': 'An import ends although pieces or rows are missing.',
  'import-counts-no-hot-bytes': 'The hot bytes of an import are not counted.',
  'import-numbers-from-one': 'Streams created after an import get numbers that imported streams have.',
  'import-goes-on-counting': 'An import goes on counting commands where the attempt left off.',
  'import-keeps-old-buckets': 'Buckets that were looked up before the import stay in memory.',
  'import-takes-over-at-once': 'A second attempt takes over from one that is at work.',
  'import-undone-by-its-own-begin': 'A BEGIN that comes late undoes the attempt that it had begun.',
  'import-undone-but-for-indexes': 'An attempt that is undone leaves rows of indexes behind.',
  'import-begins-again-late': 'A BEGIN that comes late begins again an attempt that was given up.',
  'import-lists-no-lifetimes': 'Imported streams never expire.',
  'import-lists-no-hot-streams': 'Imported hot bytes are never flushed.',
  'reads-during-import': 'Reads are answered while an import is running.',
  'writes-during-import': 'Writes are applied while an import is running.',

  // Sessions.
  'session-answers-overtake': 'Answers about a stream leave as they come, in whatever order that is.',
  'session-turns-ignored': 'A request does not wait for those about its stream that must be over before.',
  'session-keeps-message': 'A request that waits for its turn is a view of the message that brought it.',
  'session-budget-kept': 'Requests that wait for their turn when the client goes are never given back.',
  'session-read-turn-kept': 'A subscription that ends while it reads keeps its turn.',
  'session-credit-free': 'What a subscription sends takes nothing from its credit.',
  'session-credit-unheard': 'A subscription without credit does not go on when it gets some.',
  'session-stall-ignored': 'Subscriptions read on for a client that takes nothing.',

  // Not bugs: bounds that are otherwise too large to be reached in simulations. Nothing may be found.
  'import-undone-in-many-steps': 'An attempt is undone three rows at a time.',
} as const;

export type PlantedBug = keyof typeof PLANTED_BUGS;
