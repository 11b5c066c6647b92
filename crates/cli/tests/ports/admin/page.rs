//! The live page as a browser receives it.

use super::support::TestProgram;

#[tokio::test]
async fn the_admin_port_serves_the_page_with_its_types() {
    let running = TestProgram::start().await;
    for (path, kind, holds) in [
        ("/", "text/html; charset=utf-8", "<script src=\"/page.js\" defer>"),
        ("/page.css", "text/css; charset=utf-8", "article"),
        ("/page.js", "text/javascript; charset=utf-8", "/v1/events?snapshot_ms="),
    ] {
        let file = running.get(path).await;
        assert_eq!((file.status, file.header("content-type")), (200, Some(kind)), "{path}");
        assert!(file.text().contains(holds), "{path}");
    }
}

// The policy allows only files of this origin, so inline or foreign content would not work. Nothing that
// comes in may become markup.
#[tokio::test]
async fn the_page_has_no_inline_or_foreign_content() {
    let running = TestProgram::start().await;
    let (html, js) = (running.get("/").await.text(), running.get("/page.js").await.text());
    for inline in [
        "onclick",
        "onerror",
        "onload",
        "style=",
        "<style",
        "javascript:",
        "http://",
        "https://",
    ] {
        assert!(!html.contains(inline), "{inline}");
    }
    assert_eq!(html.matches("<script").count(), 1);
    for markup in [
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "localStorage",
        "cookie",
    ] {
        assert!(!js.contains(markup), "{markup}");
    }
}

#[tokio::test]
async fn the_admin_port_serves_the_openapi_document() {
    let running = TestProgram::start().await;
    let served = running.get("/v1/openapi.json").await;
    let known = include_str!("../../../../admin/src/page/openapi.json");
    assert_eq!(served.text(), known);
}
