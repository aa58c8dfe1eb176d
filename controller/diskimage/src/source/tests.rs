use rstest::rstest;

use super::*;

#[rstest]
#[case::http(SourceType::Http, "http://images.example.com/a.qcow2", Ok(()))]
#[case::a_signature(SourceType::Http, "https://images.example.com/a?X-Sig=b%2Fc%2E", Ok(()))]
#[case::a_private_address(SourceType::S3, "https://10.0.0.7:9000/bucket/a", Ok(()))]
#[case::registry(SourceType::Registry, "docker://registry.example.com:5000/fedora:43", Ok(()))]
#[case::archive(SourceType::Registry, "oci-archive:disk.tar", Ok(()))]
#[case::blank(SourceType::Blank, "", Ok(()))]
#[case::bucket(SourceType::Gcs, "gs://my_bucket/disk.raw", Ok(()))]
#[case::bucket_by_https(SourceType::Gcs, "https://storage.googleapis.com/bucket/disk.raw", Ok(()))]
#[case::bucket_without_tls(
    SourceType::Gcs,
    "http://storage.googleapis.com/bucket/disk.raw",
    Err(UrlError::Scheme(SourceType::Gcs, "gs:// or https://"))
)]
#[case::metadata_as_bucket(
    SourceType::Gcs,
    "https://metadata.google.internal/computeMetadata",
    Err(UrlError::LocalAddress)
)]
#[case::claim(SourceType::Pvc, "", Ok(()))]
#[case::snapshot(SourceType::Snapshot, "", Ok(()))]
#[case::upload(SourceType::Upload, "", Ok(()))]
#[case::user(SourceType::Http, "https://user:pass@images.example.com/a", Err(UrlError::UserInfo))]
#[case::no_host(SourceType::Http, "/a", Err(UrlError::Malformed))]
#[case::no_port(SourceType::Http, "http://images.example.com:/a", Err(UrlError::Malformed))]
#[case::scheme(
    SourceType::S3,
    "docker://a.example.com/b",
    Err(UrlError::Scheme(SourceType::S3, "http:// or https://"))
)]
#[case::file(SourceType::Http, "file:///etc/passwd", Err(UrlError::Malformed))]
#[case::backslash(
    SourceType::Http,
    "http://images.example.com\\@127.0.0.1/",
    Err(UrlError::Ambiguous("a backslash"))
)]
#[case::newline(
    SourceType::Http,
    "http://images.example.com/a\nHost: b",
    Err(UrlError::Ambiguous("white space"))
)]
#[case::other_digits(
    SourceType::Http,
    "http://①27.0.0.1/",
    Err(UrlError::Ambiguous("letters other than ASCII"))
)]
#[case::parent(
    SourceType::Http,
    "http://h.example.com/a/../b",
    Err(UrlError::Ambiguous("the path segments . or .."))
)]
#[case::encoded(
    SourceType::Http,
    "http://h.example.com/a/%2E%2e/b",
    Err(UrlError::Ambiguous("encoded dots or slashes"))
)]
#[case::localhost(SourceType::Http, "http://localhost/a", Err(UrlError::LocalAddress))]
#[case::capitals(SourceType::Http, "http://LOCALHOST./a", Err(UrlError::LocalAddress))]
#[case::below_localhost(SourceType::Http, "http://a.localhost/a", Err(UrlError::LocalAddress))]
#[case::loopback(SourceType::Http, "http://127.8.0.1/a", Err(UrlError::LocalAddress))]
#[case::short_loopback(SourceType::Http, "http://127.1/a", Err(UrlError::LocalAddress))]
#[case::decimal_loopback(SourceType::Http, "http://2130706433/a", Err(UrlError::LocalAddress))]
#[case::hexadecimal_loopback(SourceType::Http, "http://0x7f.0.0.1/a", Err(UrlError::LocalAddress))]
#[case::octal_loopback(SourceType::Http, "http://0177.0.0.1/a", Err(UrlError::LocalAddress))]
#[case::zero(SourceType::Http, "http://0/a", Err(UrlError::LocalAddress))]
#[case::this_network(SourceType::Http, "http://0.1.2.3/a", Err(UrlError::LocalAddress))]
#[case::loopback_v6(SourceType::Http, "http://[::1]:80/a", Err(UrlError::LocalAddress))]
#[case::long_loopback_v6(SourceType::Http, "http://[0:0:0:0:0:0:0:1]/a", Err(UrlError::LocalAddress))]
#[case::mapped(SourceType::Http, "http://[::ffff:127.0.0.1]/a", Err(UrlError::LocalAddress))]
#[case::translated(SourceType::Http, "http://[64:ff9b::7f00:1]/a", Err(UrlError::LocalAddress))]
#[case::alibaba_cloud(SourceType::Http, "http://100.100.100.200/latest", Err(UrlError::LocalAddress))]
#[case::oracle_cloud(SourceType::Http, "http://192.0.0.192/latest", Err(UrlError::LocalAddress))]
#[case::azure(SourceType::Http, "http://168.63.129.16/machine", Err(UrlError::LocalAddress))]
#[case::google_cloud_v6(SourceType::Http, "http://[fd20:ce::254]/a", Err(UrlError::LocalAddress))]
#[case::alibaba_cloud_mapped(
    SourceType::Http,
    "http://[::ffff:100.100.100.200]/a",
    Err(UrlError::LocalAddress)
)]
#[case::its_neighbor(SourceType::Http, "http://100.100.100.201/a", Ok(()))]
#[case::link_local_v6(SourceType::Http, "http://[fe80::1]/a", Err(UrlError::LocalAddress))]
#[case::metadata(SourceType::Http, "http://169.254.169.254/latest", Err(UrlError::LocalAddress))]
#[case::decimal_metadata(SourceType::Http, "http://2852039166/latest", Err(UrlError::LocalAddress))]
#[case::metadata_v6(SourceType::Http, "http://[fd00:ec2::254]/latest", Err(UrlError::LocalAddress))]
#[case::metadata_name(SourceType::Http, "http://metadata.google.internal/", Err(UrlError::LocalAddress))]
#[case::registry_loopback(SourceType::Registry, "docker://127.0.0.1:5000/a", Err(UrlError::LocalAddress))]
fn a_url_is_refused_for_its_reason(
    #[case] source: SourceType,
    #[case] url: &str,
    #[case] expected: Result<(), UrlError>,
) {
    assert_eq!(check_source_url(source, url, &[]), expected);
}

#[rstest]
#[case::equal("https://h.example.com/public", true)]
#[case::below("https://h.example.com/public/a.raw", true)]
#[case::with_default_port("https://h.example.com:443/public/a", true)]
#[case::in_capitals("HTTPS://H.Example.com/public/a", true)]
#[case::another_folder("https://h.example.com/publicity/a", false)]
#[case::another_path("https://h.example.com/private/a", false)]
#[case::path_in_capitals("https://h.example.com/PUBLIC/a", false)]
#[case::another_scheme("http://h.example.com/public/a", false)]
#[case::another_port("https://h.example.com:8443/public/a", false)]
#[case::another_host("https://h.example.com.evil.example/public/a", false)]
#[case::below_the_host("https://evil.h.example.com/public/a", false)]
fn a_prefix_ends_at_a_slash(#[case] url: &str, #[case] allowed: bool) {
    for prefix in ["https://h.example.com/public", "https://h.example.com/public/"] {
        let prefix = SourceUrl::parse(prefix).unwrap();
        let expected = if allowed { Ok(()) } else { Err(UrlError::NotAllowed) };
        assert_eq!(
            check_source_url(SourceType::Http, url, std::slice::from_ref(&prefix)),
            expected,
            "{prefix:?}"
        );
    }
}

#[rstest]
#[case::the_root("https://h.example.com")]
#[case::a_slash("https://h.example.com/")]
fn a_prefix_without_a_path_allows_the_whole_host(#[case] prefix: &str) {
    let prefix = SourceUrl::parse(prefix).unwrap();
    assert!(SourceUrl::parse("https://h.example.com/any/disk").unwrap().begins_with(&prefix));
}

#[rstest]
#[case::the_bucket("gs://images/public/a.raw", Ok(()))]
#[case::another_bucket("gs://images2/public/a.raw", Err(UrlError::NotAllowed))]
#[case::the_same_name_by_https("https://images/public/a.raw", Err(UrlError::NotAllowed))]
fn a_prefix_can_be_a_bucket(#[case] url: &str, #[case] expected: Result<(), UrlError>) {
    let prefix = SourceUrl::parse("gs://images/public").unwrap();
    assert_eq!(check_source_url(SourceType::Gcs, url, &[prefix]), expected);
}

#[test]
fn an_archive_in_the_importer_is_below_no_prefix() {
    let prefix = SourceUrl::parse("docker://registry.example.com").unwrap();
    assert_eq!(
        check_source_url(SourceType::Registry, "oci-archive:disk.tar", &[prefix]),
        Err(UrlError::NotAllowed)
    );
}
