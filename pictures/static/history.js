// The history of a group: the browser's side of pictures/group_picture.py. Times are milliseconds since `base`.

export const NONE = -1;
export const UNKNOWN = -2; // a member that is not in the trace yet
const MOST_CHANGES = 150000;
const MOST_REBALANCES = 4000;
const BY_NAME = new Intl.Collator("en", { numeric: true }); // once, because a comparison without it creates one each time

// Sorts names as people read them: 2 before 10.
export function inNameOrder(names) {
  return [...names].sort(BY_NAME.compare);
}

// The last place in a sorted list whose value is at most this one; -1 before the first.
export function lastUpTo(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export class History {
  constructor(document) {
    this.group = document.group;
    this.base = document.base_ms;
    this.queues = [];
    this.clients = [];
    this.order = []; // the queues in the order of their names
    this.rebalances = new Map();
    this.sorted = []; // the same, the earliest first
    this.memberTimes = [];
    this.memberCounts = [];
    this.now = 0;
    this.settled = 0;
    this.first = Infinity;
    this.last = 0; // the time of the newest change
    this.kept = 0;
    this.rows = []; // of each queue: times, owners, numbers of owners
    this.add(document);
    const before = document.before || [];
    for (let n = 0; n < before.length; n += 2) this.rows[before[n]].before = before[n + 1];
  }

  add(news) {
    if (news.queues) this.addQueues(news.queues);
    if (news.clients) this.clients.push(...news.clients);
    const changes = news.changes || [];
    for (let n = 0; n < changes.length; n += 4) {
      const row = this.rows[changes[n + 1]];
      row.times.push(changes[n]);
      row.owners.push(changes[n + 2]);
      row.numbers.push(changes[n + 3]);
      if (changes[n] < this.first) this.first = changes[n];
      if (changes[n] > this.last) this.last = changes[n];
    }
    this.kept += changes.length / 4;
    if (this.kept > MOST_CHANGES) this.forgetHalf();
    const members = news.members || [];
    for (let n = 0; n < members.length; n += 2) {
      this.memberTimes.push(members[n]);
      this.memberCounts.push(members[n + 1]);
    }
    if (news.rebalances) this.addRebalances(news.rebalances);
    if (news.now !== undefined) this.now = Math.max(this.now, news.now);
    if (news.settled !== undefined) this.settled = Math.max(this.settled, news.settled);
  }

  addQueues(names) {
    for (const name of names) {
      this.queues.push(name);
      this.rows.push({ times: [], owners: [], numbers: [], before: undefined });
    }
    const places = new Map(this.queues.map((name, place) => [name, place]));
    this.order = inNameOrder(this.queues).map((name) => places.get(name));
  }

  addRebalances(rebalances) {
    for (const each of rebalances) this.rebalances.set(each.cause, each);
    while (this.rebalances.size > MOST_REBALANCES) this.rebalances.delete(this.rebalances.keys().next().value);
    this.sorted = [...this.rebalances.values()].sort((a, b) => a.began - b.began);
  }

  forgetHalf() {
    const times = this.rows.flatMap((row) => row.times).sort((a, b) => a - b);
    const until = times[Math.floor(times.length / 2)];
    this.kept = 0;
    for (const row of this.rows) {
      const place = lastUpTo(row.times, until);
      if (place >= 0) {
        row.before = row.owners[place];
        for (const list of [row.times, row.owners, row.numbers]) list.splice(0, place + 1);
      }
      this.kept += row.times.length;
    }
    this.first = until;
  }

  ownerAt(queue, t) {
    const row = this.rows[queue];
    const place = lastUpTo(row.times, t);
    if (place < 0) return row.before === undefined ? NONE : row.before;
    return row.owners[place];
  }

  // Calls draw(from, to, owner, owners) for each period of a queue that overlaps the window; time before its first
  // owner is skipped.
  stretches(queue, from, to, draw) {
    const { times, owners, numbers, before } = this.rows[queue];
    let place = lastUpTo(times, from);
    if (place < 0 && before !== undefined && times.length && times[0] > from) draw(from, Math.min(times[0], to), before, 1);
    place = Math.max(0, place);
    for (; place < times.length && times[place] < to; place += 1) {
      const until = place + 1 < times.length ? times[place + 1] : to;
      draw(Math.max(from, times[place]), Math.min(until, to), owners[place], numbers[place]);
    }
  }

  membersAt(t) {
    const place = lastUpTo(this.memberTimes, t);
    return place < 0 ? 0 : this.memberCounts[place];
  }
}
