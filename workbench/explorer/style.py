"""Style of the explorer's HTML, in JupyterLab's colours, light or dark."""

from __future__ import annotations

STYLE = """<style>
.explorer { font-size: 13px; line-height: 1.35; color: var(--jp-ui-font-color1, #222); overflow-wrap: anywhere; }
.explorer .cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(160px, 1fr)); gap: 6px; }
.explorer .card { border: 1px solid var(--jp-border-color2, #ccc); border-radius: 4px; padding: 4px 8px; }
.explorer .card .label { font-size: 11px; opacity: 0.8; }
.explorer .card .value { font-size: 16px; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
.explorer .card .side { font-size: 11px; opacity: 0.6; }
.explorer .evidence { font-size: 10px; font-weight: normal; opacity: 0.6; }
.explorer .differs { background: rgba(255, 170, 0, 0.18); }
.explorer .card.differs { border-color: #d80; }
.explorer .card small { font-size: 13px; }
.explorer .words { margin: 8px 0 0; max-width: none; }
.explorer .tables { columns: 340px; column-gap: 28px; }
.explorer .tables > div { break-inside: avoid; overflow-x: auto; }
.explorer .stale { opacity: 0.45; }
.explorer h4 { margin: 10px 0 2px; }
.explorer table { border-collapse: collapse; font-size: 12px; margin: 0; }
.explorer th, .explorer td { padding: 1px 7px; text-align: right; border-bottom: 1px solid #8883; background: none;
  max-width: 260px; overflow-wrap: normal; }
.explorer th { white-space: nowrap; }
.explorer th:first-child, .explorer td:first-child { text-align: left; white-space: pre-wrap; }
.explorer p { margin: 2px 0; max-width: 46em; font-size: 12px; opacity: 0.85; }
.explorer summary { cursor: pointer; font-size: 12px; opacity: 0.7; }
.explorer .failed { border-left: 4px solid #c22; padding: 4px 8px; background: rgba(200, 30, 30, 0.1);
  white-space: pre-wrap; max-height: 14em; overflow-y: auto; }
.explorer.status { display: flex; flex-wrap: wrap; gap: 0 16px; font-size: 12px; min-height: 18px; }
.explorer .spinner { display: inline-block; width: 9px; height: 9px; border: 2px solid #8886; border-top-color: #d80;
  border-radius: 50%; animation: explorer-turn 0.8s linear infinite; }
@keyframes explorer-turn { to { transform: rotate(360deg); } }
.explorer-side { border: 1px solid var(--jp-border-color2, #ccc); border-radius: 4px; padding: 6px; }
.explorer-field.explorer-changed { background: rgba(255, 170, 0, 0.18); border-radius: 3px; }
.explorer-side .widget-tab-contents { overflow: visible; padding: 8px; }
.explorer-field label { font-size: 12px; }
</style>"""
