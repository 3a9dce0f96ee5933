/* What the pages of all widgets share; it is joined before each of them. */

const PATIENCE = 5000; // ms without an answer of the kernel before the reader is told
const SILENCE = "The kernel does not answer. If it is busy, wait; if it was restarted, run this cell again.";

/** The line to the kernel: whoever is not answered in time is told so by `complain`; `heard` stops the wait. */
function lineTo(model, complain) {
  let clock = null;
  const heard = () => {
    clearTimeout(clock);
    clock = null;
  };
  const send = (message) => {
    clock ??= setTimeout(() => complain(SILENCE), PATIENCE);
    try {
      model.send(message);
    } catch { // the kernel was restarted: it knows nothing of this widget
      complain(SILENCE);
    }
  };
  return { send, heard };
}
