//! The files of the page, and the policy under which a browser runs them.

/// What a browser may load and run: only the files of this server.
const POLICY: &str = include_str!("page/content-security-policy.txt");

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageFile {
    path: &'static str,
    /// Its media type.
    pub(super) media_type: &'static str,
    /// Its text.
    pub(super) text: &'static str,
}

const FILES: [PageFile; 5] = [
    PageFile { path: "/", media_type: "text/html; charset=utf-8", text: include_str!("page/index.html") },
    PageFile {
        path: "/style.css",
        media_type: "text/css; charset=utf-8",
        text: include_str!("page/style.css"),
    },
    PageFile {
        path: "/elements.js",
        media_type: "text/javascript; charset=utf-8",
        text: include_str!("page/elements.js"),
    },
    PageFile {
        path: "/script.js",
        media_type: "text/javascript; charset=utf-8",
        text: include_str!("page/script.js"),
    },
    PageFile { path: "/icon.svg", media_type: "image/svg+xml", text: include_str!("page/icon.svg") },
];

/// The file at a path.
pub(super) fn find_page_file(path: &str) -> Option<PageFile> {
    FILES.into_iter().find(|file| file.path == path)
}

/// The value of the header `Content-Security-Policy`.
pub(super) fn content_security_policy() -> &'static str {
    POLICY.trim_end()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_policy_permits_files_of_this_server_only() {
        let policy = content_security_policy();
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains('\n'), "{policy}");
        for loose in ["unsafe", "http", "data:", "blob:", "*"] {
            assert!(!policy.contains(loose), "{loose}: {policy}");
        }
        for part in ["frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"] {
            assert!(policy.contains(part), "{part}: {policy}");
        }
    }

    /// Names, annotations and messages reach the page as text only, so none of them can be markup or code.
    #[rstest]
    #[case("innerHTML")]
    #[case("outerHTML")]
    #[case("insertAdjacentHTML")]
    #[case("document.write")]
    #[case("DOMParser")]
    #[case("createContextualFragment")]
    #[case("srcdoc")]
    #[case("setHTML")]
    #[case("eval(")]
    #[case("new Function")]
    #[case("javascript:")]
    #[case("setAttribute(\"on")]
    #[case("import(")]
    fn the_scripts_create_no_markup_from_text(#[case] sink: &str) {
        for file in FILES.iter().filter(|file| file.media_type.starts_with("text/javascript")) {
            assert!(!file.text.contains(sink), "{}: {sink}", file.path);
        }
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere_and_has_no_code_of_its_own() {
        for file in FILES {
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for elsewhere in ["http:", "https:", "url(", "@import", "src=\"//"] {
                assert!(!text.contains(elsewhere), "{}: {elsewhere}", file.path);
            }
        }
        let page = include_str!("page/index.html");
        for inline in [" style=", " onclick=", " onload=", "<style", "<script>"] {
            assert!(!page.contains(inline), "{inline}");
        }
    }

    #[test]
    fn every_file_that_the_page_names_exists() {
        let page = include_str!("page/index.html");
        for file in FILES.iter().filter(|file| file.path != "/") {
            assert!(page.contains(&format!("\"{}\"", file.path)), "{}", file.path);
        }
        assert_eq!(find_page_file("/../Cargo.toml"), None);
    }
}
