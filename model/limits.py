"""The bounds and intervals of the cluster, each with its reason; relations between them are checked on import.

Units are last in the names: `_s` seconds, `_ms` milliseconds, `_bytes` bytes; a bare number is a count.
Times are RocketMQ's defaults unless a comment says otherwise. Access control, gRPC and sets of replicas have modules of
their own: `access_limits.py`, `grpc_limits.py`, `replica_limits.py`.
"""

from __future__ import annotations

# --- the wire --------------------------------------------------------------------------------------------------------
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Longest frame either side accepts; checked before a byte of the frame is buffered."""
MAX_BODY_BYTES = 4 * 1024 * 1024
"""Longest message body (RocketMQ: maxMessageSize)."""
FRAME_TIMEOUT_S = 30.0
"""How long a frame may take from its first byte to its last; the sender of a request stops waiting before that."""
MAX_FRAMES_UNDER_WAY_BYTES = 4 * MAX_FRAME_BYTES
"""Announced lengths of the frames that have partly arrived, over all connections of a server."""
MAX_FRAMES_UNDER_WAY_BYTES_OF_ONE = MAX_FRAME_BYTES
"""Announced lengths of such frames of one user, or without access control of one address. A peer that never ends its
frames fills only its own part, and the bytes read from it in one event-loop iteration do not delay others for long.
"""
MAX_UNCOUNTED_FRAME_BYTES = 64 * 1024
"""Frames up to this length do not count: a single read of a socket may bring more."""
MAX_HEADER_FIELDS = 64
"""A header is a handful of named fields; more is a broken or hostile peer."""
MAX_HEADER_ITEMS = 16_384
"""Elements of one list or map inside a header; an announced length without the elements must not make us allocate."""
MAX_ROCKETMQ_HEADER_BYTES = 128 * 1024
"""Longest header of a frame of RocketMQ's protocol: the header of a send holds the properties, up to 32 KiB."""
MAX_ROCKETMQ_FIELDS = 256
"""Fields of such a header: a command has up to 20, and hooks of a client may add their own."""
MAX_ROCKETMQ_BROKERS = 16_384
"""Addresses of RocketMQ brokers whose names a client remembers; the next route names them again."""
MAX_ROCKETMQ_HANDLES = 65_536
"""POP receipt handles at RocketMQ brokers that a client remembers: one for each batch of a queue."""
ROCKETMQ_LOCK_TRUST_S = 30.0
"""How long a client relies on a lock of a RocketMQ broker without a renewal; the broker keeps it for 60 s."""
WRITE_HIGH_WATER_BYTES = 1024 * 1024
"""Unsent bytes above which a connection is paused: requests wait, and a server stops reading from that peer."""
WRITE_LOW_WATER_BYTES = 256 * 1024
COMMANDS_PER_ITERATION = 16
"""Cost of the commands of one connection handled per event-loop iteration; see `remoting/command.py`."""
COMMANDS_PER_BATCH = 4
"""Cost of a pull, a pop, or an acknowledgement of a batch."""
BODY_BYTES_AS_ONE_COMMAND = 512
"""Bytes of a body that cost as much as one more command."""
MAX_INBOX_COMMANDS = 4_096
"""Commands read and not handled yet, above which a connection is not read."""
MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""Unsent bytes at which a peer that does not read is cut off: pushes and held answers may add up after we stopped
reading from it.
"""
MAX_INBOX_BYTES = 4 * 1024 * 1024
"""Bytes of those commands, above which a connection is not read: 4,096 commands of 64 KiB would take 256 MiB."""
MAX_UNREAD_BYTES = 512 * 1024 * 1024
"""Bytes of answers that all peers of a server together leave unread; beyond it the peer that read longest ago is cut
off.
"""
MAX_IN_FLIGHT_REQUESTS = 65_536
"""Unanswered requests that one connection may have, on either side."""
MAX_UNANSWERED_BYTES_OF_ONE = 64 * 1024 * 1024
"""Bytes of their bodies, above which a server does not read the connection: a disk may take seconds for them."""
MAX_UNANSWERED_BYTES = 256 * 1024 * 1024
"""Bytes of unanswered requests on all connections of a server; beyond it new work is refused with SYSTEM_BUSY."""
MAX_CONNECTIONS = 16_384
"""Connections of one server; the next one is answered SYSTEM_BUSY and closed."""
MAX_CONNECTIONS_OF_ADDRESS = 12_288
"""Connections from one address: a quarter of the places is left for others. Thousands of clients share the address of a
test machine, or of a router."""
FIRST_REQUEST_S = 30.0
"""How long a connection may be open before its first request; clients of any make open a connection because they have a
request.
"""
ACCEPTED_AT_ONCE = 100
"""Connections that the system keeps for a server until it accepts them, all at once; fewer for a small server."""
MAX_HTTP_CONNECTIONS = 512
"""Connections of one HTTP port, which serves metrics, the console or the control plane. Every page that may follow a
console (`MAX_CONSOLE_STREAMS`) needs a second one. One address may have three quarters of them, as on the main port.
"""
HTTP_PART_OF_DESCRIPTORS = 4
"""An HTTP port gets at most one in this many descriptors of its process; the server has that many fewer connections."""
HTTP_IDLE_S = 75.0
"""How long an HTTP connection may be idle between two requests: scrapers ask once a minute."""
RESERVED_DESCRIPTORS = 256
"""Descriptors of a server that no connection gets, or half of all its descriptors if that is less: 32 files for
reading, some for writing and for the database, and the connections that it accepts at once before it refuses them.
"""
MIN_DESCRIPTORS = 128
"""With fewer descriptors a server does not start: 32 files for reading, the other files, and a few connections."""

KEEPALIVE_IDLE_S = 5.0
KEEPALIVE_INTERVAL_S = 2.0
KEEPALIVE_PROBES = 3
"""When the system probes the peer of an idle connection, how often, and how many unanswered ones close it. A router
that has forgotten a connection drops its packets without a word, and clients have to be back within 15 s."""
UNACKNOWLEDGED_S = 10.0
"""How long the system of a client waits until the system of the server confirms sent bytes, where that can be set
(Linux: TCP_USER_TIMEOUT). Linux would send it again for 15 minutes."""
PING_TIMEOUT_S = 3.0
"""How long a client waits for a sign of life after a request was not answered in time; without one it leaves the
connection. A server that is late answers heartbeats and refusals long before."""

# --- overload --------------------------------------------------------------------------------------------------------
LATE_S = 0.05
"""A server is late when one event-loop iteration handles requests for this long: further requests wait unsorted in
their sockets.
"""
SLICE_S = 0.01
"""How long a late server serves before it reads again; the number of requests in a slice is adapted to this time."""
MIN_SLICE_REQUESTS = 16
MAX_SLICE_REQUESTS = 512
"""Requests in one slice."""
STANDING_QUEUE_S = 1.0
"""A queue that was not empty for this long is not a burst (CoDel's interval): its requests wait only for each other."""
MAX_WAITING_REQUESTS = 65_536
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Requests that a late server keeps, and the bytes of their bodies; requests beyond that are refused on arrival."""
MAX_WAITING_OF_ONE = 96
"""Requests of one connection among them, above which it is not read: its peer has to wait, and is not refused. To read
and refuse everything that a flood of small requests brings takes longer than to serve it."""
MIN_RETRY_AFTER_S = 0.1
MAX_RETRY_AFTER_S = 1.0
"""Bounds of the wait that a busy server asks for: a group has to converge within 5 s of the end of a load."""
RETRY_PAUSE_S = 0.05
MAX_RETRY_PAUSE_S = 1.0
"""First and longest pause of a client after a server has refused it; doubled in between."""
RETRY_SPACING_S = 0.002
"""Between two requests of a client that waited for the end of a pause."""
READ_FIRST_S = 0.1
"""How long a server whose timer was late first reads the bytes that have arrived, before it lets anything expire."""
MAX_READ_FIRST = 5
"""How often in a row a late server reads first: one that is always late has to act on its deadlines at some time."""

# --- requests --------------------------------------------------------------------------------------------------------
REQUEST_TIMEOUT_S = 3.0
CONNECT_TIMEOUT_S = 3.0
RECONNECT_FIRST_S = 0.05
"""First wait of the back-off after a failed connect; doubled with jitter up to `RECONNECT_MAX_S`."""
RECONNECT_MAX_S = 5.0

# --- name server -----------------------------------------------------------------------------------------------------
NAME_SERVER_STARTING_S = 5.0
"""How long after its start a name server does not answer that a topic does not exist: brokers may not have
registered.
"""
REGISTER_RETRY_MAX_S = 2.0
"""Longest wait of a broker before it tries a lost name server again, so that it registers again within that time."""
ROUTE_RETRY_S = 0.1
"""Wait of a client before it asks again for a route that the name servers do not know yet."""
BROKER_CHECK_INTERVAL_S = 1.0
BROKER_CHECK_S = 60.0
"""How often a client asks a name server whether a route has changed while a broker cannot be reached, and for how long
after the last loss: the broker may return at another address, and has to be used within 3 s. Later only the polls find
it.
"""
BROKER_REGISTER_INTERVAL_S = 30.0
BROKER_EXPIRY_S = 120.0
MAX_BROKER_EXPIRY_S = 24 * 3600.0
"""Longest silence after which a broker may ask to be still listed: without a bound, it could be listed for ever."""
MAX_TOPICS = 100_000
MAX_BROKERS = 4_096

# --- groups ----------------------------------------------------------------------------------------------------------
HEARTBEAT_INTERVAL_S = 30.0
MEMBER_EXPIRY_S = 120.0
LEASE_CLOSE_GRACE_S = 0.3
"""How long a member whose connection closed stays a member and keeps its leases. A client that lost a connection tries
again after `RECONNECT_FIRST_S`, then after twice that, and sends a heartbeat once connected: two failed attempts and a
third that succeeds fit. The queues of a killed member are still consumed again well within a second.
"""
NOTIFY_WINDOW_S = 0.1
"""At most one fan-out of a group per window; the first change of a quiet group goes out at once."""
NOTIFY_WINDOW_MEMBERS = 100
"""In a larger group the window is longer in proportion: each fan-out sets off a pass of every member."""
MAX_NOTIFY_WINDOW_S = 2.0
"""Longest window: the queues of a member that leaves may wait that long for another owner."""
MAX_PAUSE_S = 2.0
"""A group has stopped growing after this long without a join."""
MAX_GROWTH_WAIT_S = 3.0
"""Longest wait of a notification about joins while more members join; Kafka waits this long in any new group."""
MAX_NEW_GROUP_WAIT_S = 10.0
"""Longest such wait in a new group, since its first member: a thousand members that start together take seconds."""
MAX_MEMBER_CHANGES = 1_024
"""Changes of a group that a broker remembers; a member that knows an older list gets the whole list."""
MAX_REJOIN_S = 3_600.0
"""Longest time for which a broker keeps the assignment of a member whose process is to come back."""
MAX_GROUPS = 100_000
MAX_MEMBERS_PER_GROUP = 10_000
MAX_SUBSCRIPTIONS_PER_MEMBER = 1_024
MAX_EXPRESSION_CHARS = 4_096
"""Tags or SQL filter of a subscription: brokers keep it for each member. Hundreds of tags."""
MAX_EXPRESSION_DEPTH = 64
"""Conditions of an SQL filter inside each other: each is a call when a message is examined."""
MAX_COMPILED_FILTERS = 1_024
"""SQL filters that a process keeps compiled; the longest costs some hundred KB. Beyond that, some are read again."""
MAX_SUBSCRIPTION_BYTES = 256 * 1024 * 1024
"""Subscriptions of all members of a broker, in its memory: about a million."""
MAX_LISTED_TOPIC_BYTES = 8 * 1024 * 1024
"""Names of topics in the member list of one group, where members with the same topics share them."""
MAX_GROUPS_OF_CLIENT = 1_024
"""Consumer groups in one heartbeat, producer groups, and those that check transactions."""
MAX_ASSIGNED_QUEUES = 100_000
"""Queues of all topics of a group, if a broker assigns them."""
MAX_REQUEST_MODES = 100_000
"""Groups times topics of which a broker knows whether they are pulled or popped."""

MAX_SHARED_ROUTES = 256
"""Routes that the clients of one process share; a process with more topics decodes some routes again."""

# --- client tasks ----------------------------------------------------------------------------------------------------
ROUTE_POLL_INTERVAL_S = 30.0
ABSENT_BROKER_KEPT_S = 30.0
"""How long consumers keep the queues of a broker that has left all routes, from the loss of the connection to it: a
restart takes seconds, and a member that revoked these queues before the others did would make them move twice.
"""
ABSENT_BROKER_SPREAD_S = 1.0
"""Time over which clients that lost a broker at one moment spread their requests for the routes that decide whether it
is gone.
"""
OFFSET_PERSIST_INTERVAL_S = 5.0
COMMIT_WAIT_S = 0.1
"""How long a commit waits for a pull that carries it. Where messages are frequent, pulls are too, and no commit needs a
request of its own.
"""
COMMIT_STORE_S = 1.0
"""How long a broker waits to store the commits that came with pulls: one row and one event for many of them."""
LEASELESS_WAIT_S = 0.5
"""How long the pull of a leaseless member waits for a queue that another member has, before the broker answers that
there is nothing: a member whose allocation has changed since must not get the queue by an old pull.
"""
IMPLICIT_LEASE_TENURE_S = 1.0
"""Shortest time for which such a member keeps a queue, unless it leaves: its client rebalances within a second of a
notification, and until then two members may want one queue.
"""
IMPLICIT_LEASE_DRAIN_S = 0.2
"""How long such a member's pull is held while another member wants its queue: each pull brings a commit."""
IMPLICIT_LEASE_PULL_SILENCE_S = 1.0
"""Time without a pull, not explained by flow control, after which such a member counts as having released a queue. Its
client pulls again at once; after an error answer it waits 1 to 3 s.
"""
IMPLICIT_LEASE_COMMIT_SILENCE_S = 12.0
"""Time without pulls and commits after which a contested lease ends, where flow control may be the reason. Clients
commit every 5 s, and two commits may be missed.
"""
LOCK_HOLD_S = 0.6
"""How long the broker holds a lock request of such a member after a change of its group, while another member has the
queue: its client waits 1 s for the answer, and would not ask again for 1 s after a refusal.
"""
MAX_PARKED_LOCKS = 4_096
"""Lock requests that a broker holds. A client asks for one lock at a time, so this many clients may join at once;
others are refused at once.
"""
STOCK_SETTLE_S = 0.05
"""How long the notification of a change is delayed in a group with such clients. A client of RocketMQ sends its
heartbeat to one broker after the other when it joins, and notified members ask any broker for the list. A member that
asks a broker too early finds nothing new, and does not ask again for 1 s.
"""
RELAY_TIMEOUT_S = 8.0
"""How long a broker waits for the answer of a member to an operator, whose tool waits 10 s or more for the broker."""
RESET_FOLLOW_S = 15.0
"""How long such a member may take to apply a notified reset of offsets, before its pulls are answered with the new
offset: its client waits 10 s, and then asks for its queues again.
"""
REBALANCE_INTERVAL_S = 20.0
REBALANCE_RETRY_S = 1.0
"""Wait before the next pass of a member that does not own its target yet."""
SHUTDOWN_GRACE_S = 10.0
"""How long a shutdown, or the revoke of a queue, waits until dispatched messages are processed (RocketMQ's default is
0).
"""

# --- pull and flow control -------------------------------------------------------------------------------------------
PULL_BATCH = 32
MAX_PULL_BATCH = 1_024
PULL_GROWTH = 4
"""Multiple of `pull_batch` that a pull may ask for while its queue lags: each message then costs both sides half."""
MAX_PULL_BYTES = 256 * 1024
PULL_SUSPEND_S = 15.0
MAX_PULL_SUSPEND_S = 45.0  # of a queue that stays empty; with the time for the answer less than a minute
PULL_TIMEOUT_S = 30.0
PULL_RETRY_ERROR_S = 1.0
MAX_PROCESS_QUEUE_COUNT = 1_000
MAX_PROCESS_QUEUE_BYTES = 100 * 1024 * 1024
MAX_PROCESS_QUEUE_SPAN = 2_000
RUN_MESSAGES = 64
"""Messages of a queue that one worker passes to a listener that does not wait; other queues wait for it to return."""
RUN_S = 0.01
"""How long such listeners may keep the event loop from heartbeats and other work; one call may take longer."""
CONSUME_RETRY_S = 5.0
"""Wait before a failed message is dispatched again inside the same consumer."""
CONSUME_TIMEOUT_S = 900.0
"""How long a listener may have a batch before it counts as failed (RocketMQ: consumeTimeout, 15 minutes)."""
MAX_HUNG_CALLS = 1_000
"""Plain listeners of a consumer that timed out and still run. Each has a thread; beyond this number no thread is
replaced.
"""
SUSPEND_S = 1.0
"""How long an orderly queue, or key, is paused after a failure (RocketMQ: suspendCurrentQueueTimeMillis)."""
MIN_SUSPEND_S = 0.01
"""The shortest such pause: without one, a message that always fails would keep a worker spinning."""
MAX_LOCAL_OFFSETS_BYTES = 64 * 1024 * 1024
"""Longest file of offsets that a broadcasting consumer reads: a million queues."""
POLL_TIMEOUT_S = 5.0
POLL_BATCH = 32
AUTO_COMMIT_INTERVAL_S = 5.0
TOPIC_QUEUES_INTERVAL_S = 30.0
"""How often a client asks name servers whether the queues of a topic changed, while a listener waits for that."""
MAX_ATTEMPTS = 16
"""Retries of a failed message before it goes to the DLQ (RocketMQ: retryMaxTimes)."""
MAX_CONFIGURED_ATTEMPTS = 65_000
MAX_RETRY_DELAYS = 32
"""Delays of the retries of a group; RocketMQ has 16 levels, and the last delay is repeated."""
"""Highest `max_attempts`: attempts are counted in 16 bits."""
MAX_RETRY_QUEUES = 1_024
"""Queues of a retry topic on one broker: as many members as that share failed messages."""
MAX_RESENT_MARKS = 10_000
"""Dead-letter messages of a queue that may be marked as re-sent while an older one is not."""
MAX_DELAYED_MESSAGES = 1_000_000
"""Delayed messages on one broker; each costs it about 200 bytes of memory."""
MAX_REMEMBERED_RECALLS = 10_000
"""Last recalls of delayed messages that a broker knows: a producer repeats one whose answer was lost."""
MAX_DELAY_MARKS = 100_000
"""Marks of deliveries behind a message that waits for long. Beyond it pairs are merged, and a start reads more."""
MAX_DELAYED_SENDS = 900_000
"""Delayed messages that producers sent with a delay; the other places are for retries of failed messages."""
MAX_POP_WINDOW = 1_048_576
"""Offsets from the oldest message of a queue that a group has not acknowledged to the newest delivered by POP."""
MAX_POP_MESSAGES = 4 * MAX_POP_WINDOW
"""The sum of these windows over all queues and groups of a broker."""
MAX_POP_QUEUES = 100_000
"""Queues times groups of which a broker tracks the invisible messages."""
MAX_POP_BATCH = 32
"""Messages of one pop (RocketMQ: popBatchNums)."""
MAX_POP_BACKLOG = 100_000
"""Changes of invisible messages that wait while the disk accepts no writes; beyond it pops are refused."""
MAX_POP_JOURNAL_BYTES = 4 * 1024 * 1024
"""Size of the journal of invisible messages beyond which a snapshot replaces it; if larger, twice the last snapshot
counts.
"""
MAX_LEASE_ROWS = 16_384
"""Queues in one request for leases or offsets: with the longest names, an answer about each still fits a frame."""
MAX_EVENTS_PER_READ = 100_000
"""Events after which a read of the trace returns although there may be more; a message may hold a thousand."""
MAX_ACKED_OFFSETS = 65_536
"""Messages that one request may acknowledge."""
MIN_INVISIBLE_MS = 100
MAX_INVISIBLE_MS = 12 * 3600 * 1000
MAX_RENEWAL_S = 3 * 3600.0
"""How long a message is kept for a client that is connected: it may hang. RocketMQ: renewMaxTimeMillis."""
MAX_RENEWED_OF_CONNECTION = 1_024
"""Groups and client ids behind one connection whose messages are extended; of more, the first are forgotten."""
"""Bounds of the invisible time of a popped message."""
POP_INVISIBLE_S = 60.0
"""The default invisible time (RocketMQ: popInvisibleTime)."""
POP_KEEP_S = 5.0
"""How long a consumer keeps popped messages whose caller is gone, before it returns them to the broker."""
MAX_UNACKED = 96
"""Unacknowledged messages of a topic of one broker that a consumer may have (RocketMQ: popThresholdForQueue)."""
MAX_ACK_BATCH = 4_096
"""Acknowledgements in one request."""
MAX_PARKED_REQUESTS = 100_000
MAX_PARKED_REQUESTS_PER_QUEUE = 4_096
"""One user may have a quarter of them; a group of a thousand members may wait at one queue."""
SHARE_OF_ONE = 4
"""One user, or without access control one address, may fill one part in this many of each table that all users
share.
"""

# --- topics, queues, names -------------------------------------------------------------------------------------------
MAX_TOPIC_CHARS = 127
MAX_GROUP_CHARS = 120
MAX_NAME_CHARS = 255
"""Broker names, cluster names, client ids."""
MAX_FIELD_CHARS = 1_024
"""A text in the header of a request. Names are shorter, and code that creates something under a name checks it. But
servers also remember some thousands of names that they only compare, and bound their number, not their length.
"""
MAX_REMARK_CHARS = 1_000
"""The text of a refusal, cut there: it quotes what the peer sent, and that may be as long as a frame."""
MAX_SEARCHED_CHARS = 64 * 1024
"""A key or message id that is searched for: the key of a message may be as long as its payload allows."""
MAX_QUEUES_PER_TOPIC = 65_536
DEFAULT_TOPIC_QUEUES = 4
TEMPLATE_TOPIC_QUEUES = 8
MAX_BATCH_MESSAGES = 4_096
MAX_BATCH_BYTES = 1024 * 1024
ROWS_PER_REQUEST = 16
"""Sends of one iteration that are written without waiting for more, so that client and broker work in parallel
(docs/speed.md).
"""
MAX_PAYLOAD_BYTES = MAX_BODY_BYTES + 64 * 1024
"""A body with its topic, keys and properties."""
MAX_KEYS = 64
MAX_PROPERTIES = 128

# --- retention -------------------------------------------------------------------------------------------------------
RETENTION_INTERVAL_S = 10.0
"""How often a broker looks for old messages to delete (RocketMQ: cleanResourceInterval)."""
RETENTION_CHECK_S = 1.0
"""How often it checks whether a segment was finished; if so, it looks for old messages at once."""
CLOCK_JUMP_MS = 10 * 60 * 1000
"""Difference between two checks of retention from which on the wall clock counts as set; no clock drifts this fast."""
CLOCK_AWAY_MS = 24 * 3600 * 1000
"""A broker that was away for longer cannot distinguish that from a clock that was set. A day is longer than most
repairs.
"""
CLOCK_SAVED_MS = 3600 * 1000
"""How often a broker stores what its clock shows, for the next start."""
MAX_CLOCK_JUMPS = 16
"""Jumps of the wall clock that are remembered; each is needed while messages from before it are stored."""
RESERVE_CHECK_S = 5.0
"""How often a broker on a full disk checks whether there is space again for its reserve, and so for messages."""
LOCK_CHECK_S = 1.0
"""How often a broker checks that its lock file is still there. Without it, another broker may write beside it for this
long.
"""
MAX_SEGMENTS_PER_TRIM = 16
"""Files that a broker deletes in one event-loop iteration; the others wait for the next check."""
MAX_DAMAGE_OWNERS = 10_000
"""Messages of one damaged range of delayed or half messages whose owners are looked up; the others are only counted."""
MAX_DAMAGE_LINES = 20
"""Log lines of a broker about the damage that one start or one read has found; one more line counts the rest."""
MAX_REPORTED_MOVES = 10_000
"""Size of the table that suppresses repeated OFFSET_MOVED events; evicted entries are reported again."""

# --- finding a message -----------------------------------------------------------------------------------------------
MAX_LOOKUPS = 4
"""Searches that wait or run on a broker; they run one after the other."""
LOOKUP_SLICE_S = 1.0
"""How long a broker searches before it answers with the messages found so far; the next request continues there."""
LOOKUP_GENTLE_S = 5.0
"""How long a search yields to sends; after that it hurries, so that the caller does not time out."""
LOOKUP_TIMEOUT_S = 60.0
MAX_LOOKUP_MESSAGES = 64
MAX_LOOKUP_BYTES = 1024 * 1024
"""Records in one answer beyond which it is full; a single record may be longer."""

# --- transactions ----------------------------------------------------------------------------------------------------
TRANSACTION_TIMEOUT_S = 6.0
"""How long a producer has to end a half message before its group is asked (RocketMQ: transactionTimeOut)."""
MAX_TRANSACTION_TIMEOUT_S = 3600.0
"""The longest such time that a message may ask for (RocketMQ: CHECK_IMMUNITY_TIME_IN_SECONDS)."""
TRANSACTION_CHECK_INTERVAL_S = 30.0
"""Between two checks of a half message (RocketMQ: transactionCheckInterval, 30 s in 5.x, 60 s in 4.x)."""
MAX_TRANSACTION_CHECKS = 15
"""Checks of a half message, after which it is abandoned (RocketMQ: transactionCheckMax)."""
TRANSACTION_KEEP_H = 72
"""Hours for which a half message is kept (RocketMQ: fileReservedTime)."""
MAX_OPEN_TRANSACTIONS = 200_000
"""Half messages of a broker that are not ended; each costs it about 90 bytes beside its record."""
TRANSACTIONS_PER_SNAPSHOT = 50_000
"""Half messages that may arrive, and twice as many as are open, before a broker stores which are open: a restart reads
at most this many.
"""
CHECKS_AT_ONCE = 256
"""Checks that a broker sends in one event-loop iteration; the others follow in the next ones."""
CHECKED_BYTES_AT_ONCE = 8 * 1024 * 1024
"""Bytes of the messages in these checks: a producer that is sent more than it may leave unread is cut off."""
MAX_ENDED_BYTES = 64 * 1024 * 1024
"""Half messages that one request ends: all of them are in memory until they are published. A client of ours ends up to
sixteen at once, which are published whatever their length.
"""
MAX_RUNNING_CHECKS = 32
"""Checks that a producer answers at the same time."""
MAX_WAITING_CHECKS = 1_024
"""Checks that wait in a producer; it drops others, and the broker asks again."""
MAX_SHOWN_TRANSACTIONS = 20
"""Open transactions of a group that one answer describes, the oldest."""

# --- sinks -----------------------------------------------------------------------------------------------------------
MAX_STAGED_CHUNKS = 100_000
"""Stage requests that one broker holds; each is a record in its log and about 500 bytes of memory."""
MAX_SINK_QUERIES = 10_000
MAX_SPREAD_TOPICS = 1_000
"""Topics that one batch of a query may write to exactly once."""
MAX_SPREAD_BROKERS = 1_000
"""Brokers in the set to which its rows for one topic are written."""
STAGE_EXPIRY_S = 6 * 3600.0
"""Age after which staged messages that were not committed are dropped: their driver has ended."""
LAST_BATCH_KEPT_S = 30 * 24 * 3600.0
"""How long the last batch of a query is remembered; a query that resumes later could publish it twice."""
ONLY_BATCH_KEPT_S = 3600.0
"""How long the only batch of a query is remembered: such a write repeats only a commit whose answer was lost."""

# --- producer --------------------------------------------------------------------------------------------------------
SEND_TIMEOUT_S = 3.0
SEND_RETRIES = 2

# --- events ----------------------------------------------------------------------------------------------------------
TRACE_FLUSH_INTERVAL_S = 1.0
MAX_TRACE_BUFFER = 10_000
"""Events waiting to be sent; the oldest are dropped and counted beyond it."""
MAX_KNOWN_CHANGES = 10_000
"""Causes that the figures of a group remember, with their data: far more than can overlap."""
MAX_CLOCK_PAIRS = 100_000
"""Events that wait for their counterpart, and half of the pairs that are kept, to compare the clocks of a trace. One
pair per minute and node is enough, so beyond this number the pairs with the closest times stay.
"""
MAX_STOPPED_MEMBERS = 1_000
"""Members that have stopped and that may be reported once more, by brokers that notice it later."""
RUN_SEQS = 1_000_000_000
"""Event numbers of one run of a node: a thousand a second for eleven days; further events use the numbers of the next
run.
"""
MAX_CLIENT_RUN = 8_000_000
"""Runs of clients, chosen at random: numbers of all their events stay exact in tools that have only floats (2^53)."""

# --- log -------------------------------------------------------------------------------------------------------------
LINES_AT_ONCE = 20
"""Log lines of one kind about what peers can do as often as they like; the next one says how many were left out."""
LINES_S = 60.0
"""How long after the first of these lines as many again may be written."""

# --- pictures and console --------------------------------------------------------------------------------------------
MAX_PICTURES = 1_000
"""Groups whose owners are drawn; for other groups the console shows the current answers of brokers."""
MAX_PICTURE_CHANGES = 100_000
"""Changes of owners of a group that a page can scrub back to, some 20 MB: a thousand queues that move fifty times an
hour.
"""
MAX_PICTURE_NAMES = 20_000
"""Queues, and clients, that one picture names; enough for members that come and go under new names for hours."""
MAX_PICTURE_REBALANCES = 2_000
"""Rebalances of a group that are listed, and changes of its member count that are drawn."""
MAX_PICTURE_MOVES = 5_000
"""Moves of a group whose stages are kept, some 3 kB each: five rebalances of a thousand queues."""
MAX_HELD_EVENTS = 200_000
"""Events that wait for events of other nodes; further ones are drawn as they arrive."""

MAX_CHANNEL_UPDATES = 2_000
"""Updates that a page of the console that was away can catch up with: eight minutes at four a second."""
MAX_CHANNEL_BYTES = 8 * 2**20
"""Bytes of these updates in one channel; a page that is further behind loads the whole state again."""
MAX_CONSOLE_GROUPS = 64
"""Groups that are watched at a time; a new one replaces the group that no page has shown for the longest time."""
MAX_CONSOLE_STREAMS = 256
"""Pages that follow the console at a time."""
MAX_BED_CONSUMERS = 32
"""Consumers that pages may add to a test cluster; each is a process of some 50 MB."""
MAX_CONSOLE_BODY_BYTES = 1_000_000
"""A message that is published on a page."""

# --- faults of live connections ---------------------------------------------------------------------------------------
MAX_FAULTS = 100
"""Faults that are active at one server: each frame is compared with all of them."""
MAX_FAULT_S = 86_400.0
"""How long a fault may last, and how late it may make a frame."""
MAX_ORDER_BYTES = 65_536
"""An order that a daemon takes on its standard input."""
CONTROL_POLL_S = 0.05
"""How often a barrier of the control plane looks at a group."""
MAX_CONTROL_WAIT_S = 3_600.0
MAX_CONTROL_EVENTS = 200_000
"""Events of a test cluster that its control plane keeps for reports, some 100 MB."""
FAULT_DRIP_S = 0.05
"""How often a slow reader takes bytes."""
FAULT_REPORT_S = 1.0
"""How often a fault is recorded in the trace: a fault that drops every message would fill it."""

# --- simulation ------------------------------------------------------------------------------------------------------
MAX_SIM_S = 86_400.0
"""Longest simulated programme, and longest time in it: a day, which is also the limit of the virtual loop."""
MAX_SIM_STEPS = 10_000
MAX_SIM_SEEDS = 1_000_000  # of one sweep: a week of one core
MAX_SIM_CLIENTS = 2_000
"""Clients of a simulated group, and producers: twice the largest group that is measured."""
MAX_SIM_BROKERS = 16
MAX_SIM_QUEUES = 4_096
MAX_SIM_MESSAGES = 1_000_000
"""Messages of one simulated producer; each is kept until the end, because it may be redelivered."""
MAX_SIM_FINDINGS = 20
"""Findings of a simulated run: one broken thing breaks more, and the first are worth reading."""

assert MAX_FRAME_BYTES <= MAX_FRAMES_UNDER_WAY_BYTES_OF_ONE <= MAX_FRAMES_UNDER_WAY_BYTES, "a largest frame fits"
assert (MAX_CLIENT_RUN + 1) * RUN_SEQS < 2**53, "a float holds every number of an event"
assert MAX_DELAYED_SENDS + 100_000 <= MAX_DELAYED_MESSAGES, "retries have places of their own"
assert MAX_BODY_BYTES * 2 < MAX_FRAME_BYTES, "a body with its header must fit a frame"
assert MAX_LISTED_TOPIC_BYTES + MAX_MEMBERS_PER_GROUP * (MAX_NAME_CHARS + 8) < MAX_FRAME_BYTES, "a list fits a frame"
assert WRITE_LOW_WATER_BYTES < WRITE_HIGH_WATER_BYTES < MAX_UNSENT_BYTES
assert MAX_FRAME_BYTES < MAX_UNSENT_BYTES, "one largest answer must not cut its own peer off"
assert MAX_UNSENT_BYTES < MAX_UNREAD_BYTES, "one peer alone must not fill the sum"
assert CHECKED_BYTES_AT_ONCE + 4 * MAX_PAYLOAD_BYTES < MAX_UNSENT_BYTES, (
    "checks must not cut off the producer that they ask"
)
assert MAX_FRAME_BYTES < MAX_UNANSWERED_BYTES_OF_ONE < MAX_UNANSWERED_BYTES, "one largest request must be accepted"
assert MAX_CONNECTIONS_OF_ADDRESS < MAX_CONNECTIONS, "one address must not have all places"
assert MAX_CONSOLE_STREAMS < MAX_HTTP_CONNECTIONS * MAX_CONNECTIONS_OF_ADDRESS // MAX_CONNECTIONS, "all pages fit"
assert FRAME_TIMEOUT_S <= FIRST_REQUEST_S < HTTP_IDLE_S
assert RECONNECT_FIRST_S * (1 + 2) < LEASE_CLOSE_GRACE_S, "the third attempt to connect must come within the grace"
assert HEARTBEAT_INTERVAL_S < MEMBER_EXPIRY_S / 3, "two lost heartbeats must not expire a member"
assert REGISTER_RETRY_MAX_S + CONNECT_TIMEOUT_S <= NAME_SERVER_STARTING_S, (
    "a broker has to register again within that time"
)
assert BROKER_REGISTER_INTERVAL_S < BROKER_EXPIRY_S / 3, "two lost registrations must not expire a broker"
assert LOOKUP_SLICE_S < LOOKUP_GENTLE_S, "a slice that has finished a segment never has to hurry"
assert MAX_LOOKUPS * 2 * LOOKUP_GENTLE_S < LOOKUP_TIMEOUT_S, "a slice ends with a segment, and others may be before it"
assert MAX_LOOKUP_BYTES + MAX_PAYLOAD_BYTES < MAX_FRAME_BYTES, "the records found must fit a frame"
assert COMMIT_WAIT_S < LEASE_CLOSE_GRACE_S, "a member that may only have lost its connection has committed before that"
assert PULL_SUSPEND_S < PULL_TIMEOUT_S, "the broker must answer a held pull before the client times out"
