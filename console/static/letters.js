// The dead letters of a group, and the button that sends them again.

import { fill, h, number } from "/static/pictures/dom.js";
import { change, getJson, session } from "./net.js";
import { messageDetails } from "./topic.js";

export function lettersView(view, group) {
  const list = h("div", {}, h("p", { class: "soft" }, "Loading …"));
  const result = h("p", { class: "result", role: "status" });
  fill(
    view,
    h("h1", {}, `Dead letters of ${group}`),
    h("p", { class: "soft" }, "Messages that failed more often than the group allows. ", h("a", { href: `/groups/${encodeURIComponent(group)}` }, "To the group")),
    result,
    list,
  );
  const resend = async (wanted) => {
    if (await change("resend", { group, ...wanted }, result)) load();
  };
  const load = async () => {
    try {
      const found = await getJson(`/api/groups/${encodeURIComponent(group)}/dead-letters`);
      fill(
        list,
        h("p", {}, found.waiting ? `${number(found.waiting)} wait${found.waiting > found.letters.length ? `; the first ${found.letters.length} are listed` : ""}.` : "None waits to be sent again."),
        session.allow_changes && found.waiting > 0 && h("button", { type: "button", onclick: () => resend({ all: true }) }, "Send all again to the group"),
        found.letters.map((letter) => {
          const details = messageDetails(letter);
          if (session.allow_changes && !letter.undecodable) {
            details.append(h("button", { type: "button", onclick: () => resend({ id: letter.id }) }, "Send again to the group"), " ", h("button", { type: "button", onclick: () => resend({ id: letter.id, to: "topic" }) }, "Publish again to its topic"));
          }
          return details;
        }),
        !session.allow_changes && found.waiting > 0 && h("p", { class: "hint" }, "Read-only: start the console with --allow-changes to send them again."),
      );
    } catch (error) {
      fill(list, h("p", { class: "problem" }, error.message));
    }
  };
  load();
}
